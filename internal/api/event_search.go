package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/route"
)

// EventSearch describes the events to find.
type EventSearch struct {
	Filter         jsonObject `json:"filter" example:"{\"body.data.object.amount\":{\"$gte\":1000}}" doc:"Object from path (body.…, header.… or event.…) to a value, a list of values, or operators such as $gte, as in routes."`
	ReceivedAfter  string     `json:"received_after" format:"date-time" doc:"Search events received after this time."`
	ReceivedBefore string     `json:"received_before,omitempty" nullable:"true" format:"date-time" doc:"Search events received before this time; default now."`
	Limit          *int       `json:"limit,omitempty" minimum:"1" maximum:"250" doc:"Maximum number of events to return; default 50."`
	Cursor         string     `json:"cursor,omitempty" nullable:"true" doc:"next_cursor of the previous page."`
}

// EventsFound is a page of a search.
type EventsFound struct {
	Items        []EventView `json:"items" doc:"Matching events, newest first; may be fewer than limit, even none, although next_cursor is set."`
	Scanned      int         `json:"scanned" doc:"Number of events examined for this page."`
	ScannedUntil *time.Time  `json:"scanned_until" doc:"All events received after this time, up to the beginning of the page, were examined; null if there are none to examine."`
	NextCursor   *string     `json:"next_cursor" doc:"Continues the search; null if the whole time span was searched."`
}

const (
	defaultFound = 50
	searchMemory = 24 << 20 // a page of bodies and its largest body
)

func (s *server) registerSearch(api huma.API) {
	register(s, api, operation{id: "search-events", method: http.MethodPost, path: base + "/events/search",
		scope: eventhook.ScopeRead, tag: "events", class: ownLimits,
		skipsShape: true, maxBody: configBody,
		summary: "Search events by a filter on header and body",
		about: "Examines the events of a time span, newest first, and returns those that match. A page ends when limit events were found, or with its budget: 5 s, 200000 events or 256 MiB of bodies. " +
			"scanned_until says how far it came, and next_cursor continues it. A tenant runs one search or backtest at a time; a request that cannot start within 5 s gets 503 with Retry-After."}, s.searchEvents)
}

type searchRequest struct {
	TenantPath
	Body document[EventSearch]
}

type searchAnswer struct{ Body EventsFound }

func (s *server) searchEvents(ctx context.Context, by caller, in *searchRequest) (*searchAnswer, error) {
	body, shape := in.Body.read(s)
	q, err := body.query(s, by, shape)
	if err != nil {
		return nil, err
	}
	if err := by.reservation.reserve(searchMemory); err != nil {
		return nil, err
	}
	found, err := s.Routes.Search(ctx, by.tenant, q)
	if err != nil {
		return nil, err
	}
	events, err := s.Events.EventsByID(ctx, by.tenant, found.IDs)
	if err != nil {
		return nil, err
	}
	view := viewFound(s.pager("search", by.tenant), q, found, events)
	if view.ScannedUntil != nil && view.ScannedUntil.After(s.Now()) { // a time span that has not begun
		view.ScannedUntil = nil
	}
	return &searchAnswer{view}, nil
}

// EventSearchQuery is a search that was checked.
type EventSearchQuery struct {
	Filter json.RawMessage
	Window eventhook.EventFilter // the times, the position and the limit
}

func (b EventSearch) query(s *server, by caller, shape eventhook.Faults) (q EventSearchQuery, err error) {
	var rules eventhook.Faults
	if b.Filter != nil {
		rules.Merge("body.filter", route.CheckFilter(json.RawMessage(b.Filter)))
	}
	q.Filter = json.RawMessage(b.Filter)
	q.Window.ReceivedAfter, q.Window.ReceivedBefore, q.Window.Limit = moment(b.ReceivedAfter), moment(b.ReceivedBefore),
		valueOr(b.Limit, defaultFound)
	if !q.Window.ReceivedBefore.IsZero() && !q.Window.ReceivedAfter.Before(q.Window.ReceivedBefore) {
		rules.Add("body.received_before", "must be after received_after")
	}
	if err := combinedError(shape, rules); err != nil {
		return q, err
	}
	if q.Window.Before, err = cursorOf[eventhook.Event](s.pager("search", by.tenant), b.Cursor); err != nil {
		return q, cursorError("body.cursor")
	}
	return q, nil
}

func viewFound(pages pager, q EventSearchQuery, found route.SearchResult, events []eventhook.Event) EventsFound {
	out := EventsFound{Items: []EventView{}, Scanned: found.Scanned}
	for _, e := range events {
		out.Items = append(out.Items, viewEvent(e))
	}
	switch {
	case found.Next.IsZero():
		out.ScannedUntil = optionalMoment(q.Window.ReceivedAfter)
	case !found.Until.IsZero():
		out.ScannedUntil = optionalMoment(found.Until.Time())
	}
	if !found.Next.IsZero() {
		out.NextCursor = pages.encode(found.Next[:])
	}
	return out
}
