package pg

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

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

// cursorArg is the cursor of a list that goes down the ids: one that is zero is
// before nothing, so that a bound is always there for the index.
func cursorArg[K any](id eventhook.ID[K]) any {
	if id.IsZero() {
		for i := range id {
			id[i] = 0xff
		}
	}
	return [16]byte(id)
}

// newIDsInOrder are n new ids in their order, though all are of one moment.
func newIDsInOrder[K any](at time.Time, n int) []eventhook.ID[K] {
	ids := make([]eventhook.ID[K], n)
	for i := range ids {
		ids[i] = eventhook.NewID[K](at)
	}
	slices.SortFunc(ids, func(a, b eventhook.ID[K]) int { return bytes.Compare(a[:], b[:]) })
	return ids
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
	return eventhook.SanitizeText(s)
}

// jsonArg is JSON as a parameter, stored as it is but for bytes that are not
// UTF-8, which no parser of ours refuses inside a string; none is NULL.
func jsonArg(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	return strings.ToValidUTF8(string(raw), "\uFFFD")
}

// textElement is textArg as an element of an array.
func textElement(s string) *string {
	if s == "" {
		return nil
	}
	return new(eventhook.SanitizeText(s))
}

// jsonElement is jsonArg as an element of an array.
func jsonElement(raw json.RawMessage) *string {
	if len(raw) == 0 {
		return nil
	}
	return new(strings.ToValidUTF8(string(raw), "\uFFFD"))
}

// invalidRequest is what is said of a request beside its faults, whose locations are
// those in the request.
const invalidRequest = "The request is not valid."

func invalid(location, message string) error {
	return eventhook.Faults{{Location: location, Message: message}}.Err(invalidRequest)
}

// notFound names the thing that no row was found for.
func notFound(err error, thing string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return eventhook.NotFound(thing)
	}
	return err
}

// collectPage collects rows up to the one with which they have more than
// eventhook.MaxPageBytes.
func collectPage[T interface{ Bytes() int }](rows pgx.Rows, scan pgx.RowToFunc[T]) (list []T, err error) {
	defer rows.Close()
	for size := 0; size <= eventhook.MaxPageBytes && rows.Next(); {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
		size += one.Bytes()
	}
	rows.Close() // reads on, and keeps nothing
	return list, rows.Err()
}
