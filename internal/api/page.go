package api

import (
	"encoding/base64"
	"time"

	"github.com/eventhook/eventhook"
)

// TenantPath is the part of a path that the middleware has read. Parts of
// requests that are embedded must be exported, else huma does not see them.
type TenantPath struct {
	Tenant string `path:"tenant" doc:"The tenant's slug."`
}

// PageQuery asks for a part of a list.
type PageQuery struct {
	Limit  int    `query:"limit" default:"50" minimum:"1" maximum:"250"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before."`
}

// page is one part of a list, newest first.
type page[T any] struct {
	Body struct {
		Items      []T     `json:"items"`
		NextCursor *string `json:"next_cursor"`
	}
}

var errCursor = &eventhook.Error{Kind: eventhook.KindMalformed, Message: "The cursor is not one that this API has given."}

// cursorOf reads a cursor: where the page before ended. Zero without one.
func cursorOf[K any](cursor string) (id eventhook.ID[K], err error) {
	if cursor == "" {
		return id, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) != len(id) {
		return id, errCursor
	}
	return eventhook.ID[K](raw), nil
}

// makePage shows a list of which one item more than the limit was read.
func makePage[T, V any, K any](list []T, limit int, show func(T) V, id func(T) eventhook.ID[K]) *page[V] {
	p := &page[V]{}
	p.Body.Items = []V{}
	for i, item := range list {
		if i == limit {
			last := id(list[i-1])
			cursor := base64.RawURLEncoding.EncodeToString(last[:])
			p.Body.NextCursor = &cursor
			break
		}
		p.Body.Items = append(p.Body.Items, show(item))
	}
	return p
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
