package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/eventhook/eventhook"
)

// TenantPath is the path parameter that every operation of a tenant has. Embedded
// parts of inputs must be exported, or else huma ignores them.
type TenantPath struct {
	Tenant string `path:"tenant" doc:"Slug of the tenant."`
}

// PageQuery selects a page of a list.
type PageQuery struct {
	Limit  int    `query:"limit" default:"50" minimum:"1" maximum:"250" doc:"Maximum number of items of a page."`
	Cursor string `query:"cursor" doc:"next_cursor of the previous page."`
}

// page is a page of a list, newest items first.
type page[T any] struct {
	Body struct {
		Items      []T     `json:"items"`
		NextCursor *string `json:"next_cursor" doc:"Cursor of the next page; null on the last page."`
	}
}

var errCursor = cursorError("query.cursor")

func cursorError(at string) error {
	return &eventhook.Error{Kind: eventhook.KindMalformed, Message: "The cursor is not valid for this list.",
		Faults: []eventhook.Fault{{Location: at, Message: "must be the next_cursor of the previous page"}}}
}

// typeFilter returns the event type or pattern that filters a list, "" for no filter. A text
// with a misplaced * would match nothing, so it is an error.
func typeFilter(at, text string) (string, error) {
	text = eventhook.SanitizeLabel(text)
	if text == "" {
		return "", nil
	}
	if wrong := eventhook.CheckPattern(text); wrong != "" {
		return "", invalid(at, wrong)
	}
	return text, nil
}

// pager encodes and decodes the cursors of one list of one tenant. A cursor contains
// the position at which a page ended, so that rows inserted later do not shift the
// pages, and a MAC. A cursor that was modified, or belongs to another list or
// tenant, is refused.
type pager struct{ key []byte }

const macBytes = 8

// pager returns the pager of a list of a tenant; the zero id for lists without
// tenant. All instances create the same cursors, because they share Deps.CursorKey.
func (s *server) pager(list string, tenant eventhook.TenantID) pager {
	h := hmac.New(sha256.New, s.CursorKey)
	_, _ = h.Write([]byte("cursor\x00" + list + "\x00" + tenant.String())) // never fails
	return pager{h.Sum(nil)}
}

func (p pager) mac(position []byte) []byte {
	h := hmac.New(sha256.New, p.key)
	_, _ = h.Write(position) // never fails
	return h.Sum(nil)[:macBytes]
}

// encode returns the cursor of a position.
func (p pager) encode(position []byte) *string {
	return new(base64.RawURLEncoding.EncodeToString(append(p.mac(position), position...)))
}

// decode returns the position of a cursor.
func (p pager) decode(cursor string) ([]byte, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) < macBytes || !hmac.Equal(raw[:macBytes], p.mac(raw[macBytes:])) {
		return nil, errCursor
	}
	return raw[macBytes:], nil
}

// cursorOf returns the id at which the previous page ended; zero for an empty
// cursor.
func cursorOf[K any](p pager, cursor string) (id eventhook.ID[K], err error) {
	if cursor == "" {
		return id, nil
	}
	position, err := p.decode(cursor)
	if err != nil || len(position) != len(id) {
		return id, errCursor
	}
	return eventhook.ID[K](position), nil
}

// newPage builds a page from a list with up to limit+1 items. The additional item
// shows that there is a next page.
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

// pointers returns pointers to the items of a list.
func pointers[T any](list []T) []*T {
	all := make([]*T, len(list))
	for i := range list {
		all[i] = &list[i]
	}
	return all
}

// scannedPage builds a page from a list with up to limit+1 items that a store found by
// examining rows. next is the id before which the store continues, zero at the end: a page
// can have fewer items than the limit and yet a next page.
func scannedPage[T, V any, K any](p pager, list []T, next eventhook.ID[K], limit int, show func(T) V, id func(T) eventhook.ID[K]) *page[V] {
	out := newPage(p, list, limit, show, id)
	if out.Body.NextCursor == nil && !next.IsZero() {
		out.Body.NextCursor = p.encode(next[:])
	}
	return out
}

// aboutScans describes the lists whose filters have no index.
const aboutScans = "A page can have fewer items than limit, even none, and yet a next_cursor: the search of a page ends after 2 s."

// fittingLimit returns the limit of a page: limit, or fewer items if more would
// exceed eventhook.MaxPageBytes. A page has at least one item.
func fittingLimit[T interface{ Bytes() int }](list []T, limit int) int {
	size := 0
	for i, item := range list {
		if size += item.Bytes(); size > eventhook.MaxPageBytes && i > 0 {
			return min(i, limit)
		}
	}
	return limit
}

// utc returns a time in UTC, as in all responses, whatever the time zone of the
// machine.
func utc(t time.Time) time.Time { return t.UTC() }

func optionalUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC())
}

// valueOf returns the text, or "" for nil.
func valueOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// optional returns nil for an empty string.
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
