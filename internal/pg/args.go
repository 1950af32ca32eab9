package pg

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// uuidArg is an id as a parameter; a zero id is NULL.
func uuidArg[K any](id eventhook.ID[K]) any {
	if id.IsZero() {
		return nil
	}
	return [16]byte(id)
}

func uuids[K any](ids []eventhook.ID[K]) [][16]byte {
	raw := make([][16]byte, len(ids))
	for i, id := range ids {
		raw[i] = id
	}
	return raw
}

// textArg is text as a parameter; "" is NULL.
func textArg(s string) any {
	if s == "" {
		return nil
	}
	return eventhook.Text(s)
}

// jsonArg is JSON as a parameter, stored as it is but for bytes that are not
// UTF-8, which no parser of ours refuses inside a string; none is NULL.
func jsonArg(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	return strings.ToValidUTF8(string(raw), "\uFFFD")
}

func invalid(location, message string) error {
	return eventhook.Faults{{Location: location, Message: message}}.Err("the request is not valid")
}

// notFound names the thing that no row was found for.
func notFound(err error, thing string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return eventhook.NotFound(thing)
	}
	return err
}
