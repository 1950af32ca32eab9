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

// uuidArg returns an id as a parameter. A zero id is NULL.
func uuidArg[K any](id eventhook.ID[K]) any {
	if id.IsZero() {
		return nil
	}
	return [16]byte(id)
}

// cursorArg returns the cursor of a list in descending order of ids. A zero cursor becomes
// the greatest id, so that the index scan always has a bound.
func cursorArg[K any](id eventhook.ID[K]) any {
	if id.IsZero() {
		for i := range id {
			id[i] = 0xff
		}
	}
	return [16]byte(id)
}

// newIDsInOrder returns n sorted new ids with the same time.
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

// textArg returns text as a parameter or an element of an array. An empty text is NULL.
func textArg(s string) *string {
	if s == "" {
		return nil
	}
	return new(eventhook.SanitizeText(s))
}

// jsonArg returns JSON as a parameter or an element of an array. Empty JSON is NULL. Bytes that
// are not UTF-8, which the JSON parsers in use accept inside strings, are replaced.
func jsonArg(raw json.RawMessage) *string {
	if len(raw) == 0 {
		return nil
	}
	return new(strings.ToValidUTF8(string(raw), "\uFFFD"))
}

// invalidRequest is the message of an error whose faults have locations in a request.
const invalidRequest = "The request is not valid."

// invalid returns an error of KindInvalid with one fault at a location.
func invalid(location, message string) error {
	return eventhook.Faults{{Location: location, Message: message}}.Err(invalidRequest)
}

// notFound returns KindNotFound for thing if no row was found, else err.
func notFound(err error, thing string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return eventhook.NotFound(thing)
	}
	return err
}

// collectPage collects rows until they have more than eventhook.MaxPageBytes. It discards
// the remaining rows.
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
	rows.Close() // discards the remaining rows
	return list, rows.Err()
}

// timeArg returns a time as a parameter; the zero time becomes NULL.
func timeArg(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
