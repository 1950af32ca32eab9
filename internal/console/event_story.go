package console

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

// story is the data of the page of one event: its history, from its request to the last
// attempt of its last delivery.
type story struct {
	client.EventDetail
	Source     *client.Source // nil for events without a source, and if it is deleted
	Duplicates duplicates
	Routes     routing
	Actions    []storyAction
	Deliveries []storyDelivery
	Payload    payloadView
	Curl       *curlCommand // nil if the request cannot be sent again

	// Send is the form that sends the event to one of Subscriptions.
	Send          form
	Subscriptions []client.Subscription
	// Reload is the address of the page; RoutesHref shows the inputs of the targets, too.
	Reload, RoutesHref string
	ReadAt             time.Time
}

// duplicates are later repetitions of an event.
type duplicates struct {
	Events  []client.Event
	HasMore bool
}

func (c *Console) event(r *request) (view, error) {
	s, err := c.storyOf(r)
	if err != nil {
		return view{}, err
	}
	return storyView(s), nil
}

func storyView(s *story) view {
	return view{Title: s.EventType, Data: s, IsStill: !s.IsOpen()}
}

// storyOf reads an event and its effects. Only the event itself must be readable: the page
// leaves out any other part that the API refuses.
func (c *Console) storyOf(r *request) (*story, error) {
	params := client.GetEventParams{MaxBodyBytes: r.treeBytes()}
	event, err := r.api.GetEvent(r.Context(), r.tenant, r.PathValue("id"), params)
	if err != nil {
		return nil, err
	}
	s := &story{EventDetail: event, Reload: r.storyLink("", ""), RoutesHref: r.storyLink("routes", "inputs") + "#routed", ReadAt: c.Now()}
	parts := []func(*request, *story) error{readSource, readDuplicates, readRouting, readActions, readDeliveries}
	if !web.IsForPart(r.Request) { // a refresh replaces only the parts above
		parts = append(parts, readPayload, readSubscriptions)
	}
	for _, read := range parts {
		if err := read(r, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// storyLink returns the address of the event's page with a query parameter changed.
func (r *request) storyLink(name, value string) string {
	q := r.URL.Query()
	if name != "" {
		q.Set(name, value)
	}
	if len(q) == 0 {
		return r.eventPath()
	}
	return r.eventPath() + "?" + q.Encode()
}

// refused reports whether the API answered with a problem. Other errors are the gateway's own.
func refused(err error) bool {
	_, ok := errors.AsType[*client.Problem](err)
	return ok
}

func readSource(r *request, s *story) error {
	if s.EventDetail.Source == nil {
		return nil
	}
	source, err := r.api.GetSource(r.Context(), r.tenant, *s.EventDetail.Source)
	if err == nil {
		s.Source = &source
	}
	return unlessRefused(err)
}

// unlessRefused returns nil for problems of the API.
func unlessRefused(err error) error {
	if refused(err) {
		return nil
	}
	return err
}

// readDuplicates reads the events with the same key, which the API finds by an index.
func readDuplicates(r *request, s *story) error {
	const shown = 5
	if s.IdempotencyKey == nil || s.EventDetail.Source == nil || s.DuplicateOf != nil {
		return nil
	}
	limit, status := int64(shown+1), client.EventStatusDuplicate
	found, err := r.api.ListEvents(r.Context(), r.tenant, client.ListEventsParams{Limit: &limit, Source: s.EventDetail.Source,
		Status: &status, IdempotencyKey: s.IdempotencyKey})
	for _, e := range found.Items {
		if e.DuplicateOf != nil && *e.DuplicateOf == s.ID {
			s.Duplicates.Events = append(s.Duplicates.Events, e)
		}
	}
	if len(s.Duplicates.Events) > shown {
		s.Duplicates.Events, s.Duplicates.HasMore = s.Duplicates.Events[:shown], true
	}
	return unlessRefused(err)
}

func readSubscriptions(r *request, s *story) error {
	if !r.can("manage") {
		return nil
	}
	const most = 250
	limit := int64(most)
	found, err := r.api.ListSubscriptions(r.Context(), r.tenant, client.ListSubscriptionsParams{Limit: &limit})
	s.Subscriptions = found.Items
	s.Send = r.formOf(nil, "subscription", "event_id")
	return unlessRefused(err)
}

// SourceName returns the slug of the source; "" for events without one.
func (s *story) SourceName() string {
	if s.EventDetail.Source == nil {
		return ""
	}
	return *s.EventDetail.Source
}

// IsOpen reports whether the event, or an effect of it, has not ended.
func (s *story) IsOpen() bool {
	return s.Outcome == client.EventDetailOutcomeInProgress || s.Status == client.EventStatusPending ||
		s.Status == client.EventStatusProcessing || s.Status == client.EventStatusFailed
}

// CanRetry reports whether the event can be processed again under its own id.
func (s *story) CanRetry() bool {
	return slices.Contains([]client.EventStatus{client.EventStatusFailed, client.EventStatusDead, client.EventStatusUnrouted}, s.Status)
}

// CanRunAgain reports whether a new event can be made of the payload.
func (s *story) CanRunAgain() bool {
	isFinal := slices.Contains([]client.EventStatus{client.EventStatusDead, client.EventStatusUnrouted, client.EventStatusDelivered,
		client.EventStatusDuplicate}, s.Status)
	return isFinal && s.Origin == client.EventOriginSource
}

// MatchesToday reports whether one of today's routes matches the event.
func (s *story) MatchesToday() bool {
	return slices.ContainsFunc(s.Routes.Routes, func(x client.RouteExplanation) bool { return x.Matched })
}

// WhyUnrouted tells why nothing was started for an unrouted event, and the next step.
func (s *story) WhyUnrouted() string {
	switch {
	case !s.Routes.IsTested:
		return "No route matched the event when it arrived. Test today's routes to see the reasons."
	case s.Routes.Fault != "":
		return "No route matched the event when it arrived."
	case s.MatchesToday():
		return "No route matched the event when it arrived, but one of today's routes does: reprocess the event, or run it again."
	case len(s.Routes.Routes) == 0:
		return "The event is stored, but its source has no routes. A route decides what happens with events."
	}
	return "The event is stored, but none of the source's routes matches it. The reasons are below."
}

// After returns how long after the event was received a time was, for example +12 ms.
func (s *story) After(at time.Time) string {
	return "+" + web.Duration(max(0, at.Sub(s.ReceivedAt)))
}

// servePayload sends the exact bytes of an event's body as a file, as the API reads them.
func (c *Console) servePayload(r *request, w http.ResponseWriter) error {
	id := r.PathValue("id")
	api, err := c.inProcess(r.Request, func(h http.Header) io.Writer { return payloadFile(w, id, h) })
	if err != nil {
		return err
	}
	response, err := api.GetEventPayload(r.Context(), r.tenant, id, client.GetEventPayloadParams{})
	if err != nil {
		return err
	}
	return response.Body.Close()
}
