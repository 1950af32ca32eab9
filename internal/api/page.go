package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/eventhook/eventhook"
)

// TenantPath is the part of a path that the middleware has read. Parts of
// requests that are embedded must be exported, else huma does not see them.
type TenantPath struct {
	Tenant string `path:"tenant" doc:"Slug of the tenant."`
}

// PageQuery asks for a part of a list.
type PageQuery struct {
	Limit  int    `query:"limit" default:"50" minimum:"1" maximum:"250" doc:"Maximum number of items of a page."`
	Cursor string `query:"cursor" doc:"next_cursor of the previous page."`
}

// page is one part of a list, newest first.
type page[T any] struct {
	Body struct {
		Items      []T     `json:"items"`
		NextCursor *string `json:"next_cursor"`
	}
}

var errCursor = &eventhook.Error{Kind: eventhook.KindMalformed, Message: "The cursor is not one that this list has given.",
	Faults: []eventhook.Fault{{Location: "query.cursor", Message: "is not one that this list has given"}}}

// pager makes and reads the cursors of one list. A cursor holds where a page
// ended, so that rows which come meanwhile move nothing, and a mark that only
// we can make: one that was changed, or belongs to another list or tenant, is
// refused and not taken for some place.
type pager struct{ key []byte }

const macBytes = 8

// pager is for the list of a name, of one tenant or, with the zero id, of none.
// All instances make the same marks: they share Deps.CursorKey.
func (s *server) pager(list string, tenant eventhook.TenantID) pager {
	h := hmac.New(sha256.New, s.CursorKey)
	_, _ = h.Write([]byte("cursor\x00" + list + "\x00" + tenant.String())) // never fails
	return pager{h.Sum(nil)}
}

func (p pager) mac(place []byte) []byte {
	h := hmac.New(sha256.New, p.key)
	_, _ = h.Write(place) // never fails
	return h.Sum(nil)[:macBytes]
}

// write makes the cursor of a place.
func (p pager) encode(place []byte) *string {
	return new(base64.RawURLEncoding.EncodeToString(append(p.mac(place), place...)))
}

// read returns the place of a cursor.
func (p pager) decode(cursor string) ([]byte, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) < macBytes || !hmac.Equal(raw[:macBytes], p.mac(raw[macBytes:])) {
		return nil, errCursor
	}
	return raw[macBytes:], nil
}

// cursorOf reads a cursor: where the page before ended. Zero without one.
func cursorOf[K any](p pager, cursor string) (id eventhook.ID[K], err error) {
	if cursor == "" {
		return id, nil
	}
	place, err := p.decode(cursor)
	if err != nil || len(place) != len(id) {
		return id, errCursor
	}
	return eventhook.ID[K](place), nil
}

// newPage shows a list of which one item more than the limit was read.
func newPage[T, V any, K any](p pager, list []T, limit int, show func(T) V, id func(T) eventhook.ID[K]) *page[V] {
	out := &page[V]{}
	out.Body.Items = []V{}
	for i, item := range list {
		if i == limit {
			last := id(list[i-1])
			out.Body.NextCursor = p.encode(last[:])
			break
		}
		out.Body.Items = append(out.Body.Items, show(item))
	}
	return out
}

// fitting is the limit of a page of a list: less than what was asked for, if more
// entries would go beyond eventhook.MaxPageBytes.
func fittingLimit[T interface{ Bytes() int }](list []T, limit int) int {
	size := 0
	for i, item := range list {
		if size += item.Bytes(); size > eventhook.MaxPageBytes && i > 0 {
			return min(i, limit)
		}
	}
	return limit
}

// utc is a moment as clients get it, whatever the zone of this machine.
func utc(t time.Time) time.Time { return t.UTC() }

func optionalUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC())
}

// optional is a text that is null when empty.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func optionalID[K any](id eventhook.ID[K]) *string {
	if id.IsZero() {
		return nil
	}
	return optional(id.String())
}
