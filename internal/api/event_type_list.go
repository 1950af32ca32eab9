package api

import (
	"context"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

type eventTypesQuery struct {
	TenantPath
	PageQuery
}

// listEventTypes lists the tenant's entries, followed by the built-in types. A cursor
// holds the id of a tenant's entry or the name of a built-in type.
func (s *server) listEventTypes(ctx context.Context, by caller, in *eventTypesQuery) (*page[EventType], error) {
	pages := s.pager("event types", by.tenant)
	before, name, err := eventTypeCursor(pages, in.Cursor)
	if err != nil {
		return nil, err
	}
	var found []eventhook.EventType
	if name == "" {
		if found, err = s.EventTypes.EventTypes(ctx, by.actor(), by.tenant, before, in.Limit+1); err != nil {
			return nil, err
		}
	}
	for _, t := range builtinEventTypes() {
		if t.Name > name && !t.IsHiddenFrom(by.actor()) {
			found = append(found, t)
		}
	}
	out := &page[EventType]{}
	out.Body.Items = []EventType{}
	for _, t := range found[:min(len(found), in.Limit)] {
		out.Body.Items = append(out.Body.Items, viewEventType(t))
	}
	if len(found) > in.Limit {
		out.Body.NextCursor = pages.encode(positionOf(found[in.Limit-1]))
	}
	return out, nil
}

// builtinEventTypes returns the types of the gateway's own events, sorted by name.
func builtinEventTypes() []eventhook.EventType {
	all := slices.Concat(eventhook.SystemEventTypes(), eventhook.LifecycleEventTypes())
	slices.SortFunc(all, func(x, y eventhook.EventType) int { return strings.Compare(x.Name, y.Name) })
	return all
}

// positionOf returns the position of an event type for a cursor: its id, or the marked
// name of a built-in type, which is always longer than an id.
func positionOf(t eventhook.EventType) []byte {
	if t.ID.IsZero() {
		return slices.Concat(builtinPosition, []byte(t.Name))
	}
	return t.ID[:]
}

var builtinPosition = []byte("built in, after ")

func eventTypeCursor(pages pager, cursor string) (before eventhook.EventTypeID, name string, err error) {
	if cursor == "" {
		return before, "", nil
	}
	position, err := pages.decode(cursor)
	if err == nil && len(position) > len(builtinPosition) {
		return before, string(position[len(builtinPosition):]), nil
	}
	before, err = cursorOf[eventhook.EventType](pages, cursor)
	return before, "", err
}
