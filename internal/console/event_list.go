package console

import (
	"fmt"
	"net/url"

	"github.com/eventhook/eventhook/client"
)

var eventPages = []page{
	{pattern: "GET /console/t/{tenant}/events", template: "events", handle: (*Console).events, isLive: true},
	{pattern: "GET /console/t/{tenant}/events/search", template: "event_search", handle: (*Console).searchEvents},
	{pattern: "GET /console/t/{tenant}/events/reprocess", needs: "manage",
		template: "event_reprocess", handle: (*Console).planReprocess},
	{pattern: "POST /console/t/{tenant}/events/reprocess", needs: "manage", handle: (*Console).reprocessEvents},
	{pattern: "POST /console/t/{tenant}/events/reprocess/all", needs: "manage",
		template: "event_reprocess", handle: (*Console).reprocessMatching},
	{pattern: "GET /console/t/{tenant}/events/{id}", template: "event", handle: (*Console).event, isLive: true},
	{pattern: "GET /console/t/{tenant}/events/{id}/payload", serve: (*Console).servePayload},
	{pattern: "POST /console/t/{tenant}/events/{id}/reprocess", needs: "manage", handle: (*Console).reprocessEvent},
	{pattern: "POST /console/t/{tenant}/events/{id}/send", needs: "manage",
		template: "event", handle: (*Console).sendEvent, isLive: true},
	{pattern: "POST /console/t/{tenant}/events/{id}/retry-delivery", needs: "manage",
		handle: (*Console).retryDeliveryOfEvent},
	{pattern: "POST /console/t/{tenant}/events/{id}/retry-execution", needs: "work",
		handle: (*Console).retryExecutionOfEvent},
}

// eventStatuses are the values of the filter for the status.
var eventStatuses = []string{"pending", "processing", "delivered", "unrouted", "failed", "dead", "duplicate"}

// eventList is the data of the list of events.
type eventList struct {
	Events   []client.Event
	Filter   form
	Statuses []string
	Selected map[string]bool // ids in the URL
	Pager    pager
	// IsFiltered is false for the list of all events. HasMore is true if one of the filters is set
	// that are shown on demand.
	IsFiltered, HasMore bool
	// ReprocessHref is the page that reprocesses all events of the filters; "" if the API cannot.
	ReprocessHref string
	// Filters is the query of the list to which the acts return.
	Filters string
}

// eventFilters are the filters of the list, which are the API's own.
var eventFilters = []string{"source", "status", "event_type", "received_after", "received_before", "idempotency_key", "trace_id", "request_id",
	"correlation_id", "scope"}

// moreFilters are the filters that the list shows on demand.
var moreFilters = []string{"trace_id", "request_id", "correlation_id", "scope"}

func (c *Console) events(r *request) (view, error) {
	times, err := r.times("received_after", "received_before")
	if err != nil {
		return view{}, err
	}
	cursor, limit := r.cursor()
	found, err := r.api.ListEvents(r.Context(), r.tenant, client.ListEventsParams{Cursor: cursor, Limit: limit, Source: r.filter("source"),
		Status: filterAs[client.EventStatus](r, "status"), EventType: r.filter("event_type"), ReceivedAfter: times[0], ReceivedBefore: times[1],
		IdempotencyKey: r.filter("idempotency_key"), TraceID: r.filter("trace_id"), RequestID: r.filter("request_id"),
		CorrelationID: r.filter("correlation_id"), Scope: r.filter("scope")})
	if err != nil {
		return view{}, err
	}
	list := eventList{Events: found.Items, Filter: form{Values: r.URL.Query()}, Statuses: eventStatuses,
		Pager: r.pager(found.NextCursor), Selected: map[string]bool{}, Filters: filtersOf(r.URL.Query()).Encode()}
	for _, id := range r.URL.Query()["selected"] {
		list.Selected[id] = true
	}
	for _, name := range eventFilters {
		list.IsFiltered = list.IsFiltered || r.filter(name) != nil
	}
	for _, name := range moreFilters {
		list.HasMore = list.HasMore || r.filter(name) != nil
	}
	if q := r.URL.Query(); canReprocessFilter(q) {
		list.ReprocessHref = withQuery(r.base()+"/events/reprocess", &url.URL{RawQuery: reprocessQuery(q)})
	}
	return view{Title: "Events", Data: list}, nil
}

// reprocessEvents processes the chosen events again. With the mode again it makes new events of
// their payloads.
func (c *Console) reprocessEvents(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	ids, err := r.chosen()
	if err != nil {
		return view{}, err
	}
	body := client.EventReprocess{EventIDs: ids}
	if r.PostForm.Get("mode") == "again" {
		mode := client.EventReprocessMode("again")
		body.Mode = &mode
	}
	done, err := r.api.ReprocessEvents(r.detached(), r.tenant, body)
	if err != nil {
		return view{}, err
	}
	notice := fmt.Sprintf("%d of %d chosen events are processed again.", done.ReprocessedCount, len(ids))
	if len(done.Skipped) > 0 {
		notice += fmt.Sprintf(" %d are skipped: %s.", len(done.Skipped), done.Skipped[0].Reason)
	}
	back, _ := url.ParseQuery(r.PostForm.Get("filters")) // of the page itself; the list reads its known names
	return redirect(r.listPath(back), notice)
}
