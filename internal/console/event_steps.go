package console

import (
	"cmp"
	"slices"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

// Limits of a story, so that the page of an event with thousands of effects stays small.
const (
	shownActions    = 100
	shownDeliveries = 50
	readPublished   = 5 // published events whose deliveries are shown
	readAttempts    = 8 // deliveries whose attempts are shown
)

// routing tells which routes match the event today: the API stores no verdicts.
type routing struct {
	Routes []client.RouteExplanation
	// Fault says why the routes cannot be tested.
	Fault string
	// HasInputs is true if the page shows the inputs of the targets.
	HasInputs bool
	// IsTested is false for events in progress and large events, whose routes are tested on demand.
	IsTested bool
}

// readRouting tests the routes of today. An event in progress is refreshed often, and a large one
// takes memory, so that their routes are tested only if the URL asks for it.
func readRouting(r *request, s *story) error {
	asked := r.filter("routes") != nil
	isCostly := s.IsOpen() || s.BodySize > shownPayload || s.Status == client.EventStatusDuplicate
	if s.Origin != client.EventOriginSource || isCostly && !asked {
		return nil
	}
	s.Routes.IsTested, s.Routes.HasInputs = true, asked
	tested, err := r.api.TestEvent(r.Context(), r.tenant, s.ID)
	s.Routes.Routes = tested.Routes
	if asked {
		boundInputsOf(tested.Routes)
	}
	if refused(err) {
		s.Routes.Fault = problemDetail(err)
	}
	return unlessRefused(err)
}

// maxInputs limits the inputs of targets in a page, in bytes as they are shown.
const maxInputs = 256 << 10

// boundInputs leaves out the inputs that do not fit into the bytes that are left. It returns the bytes
// that are left after it.
func boundInputs(actions []client.ActionExplanation, left int) int {
	for i, a := range actions {
		size := len(web.Pretty(a.Input))
		if size > left {
			actions[i].Input, actions[i].InputLeftOut = nil, new(true)
			continue
		}
		left -= size
	}
	return left
}

// boundInputsOf is boundInputs for all routes of a page.
func boundInputsOf(routes []client.RouteExplanation) {
	left := maxInputs
	for _, route := range routes {
		left = boundInputs(route.Actions, left)
	}
}

// storyAction is an action with its effect.
type storyAction struct {
	client.Action
	Kind      string // of the status: ok, running, …
	After     string
	Name      string // of the effect, for example task
	Href      string // of the effect's page; "" if there is none
	Retryable string // id of the execution that can be retried; ""
	Published *storyEvent
}

// storyEvent is a published event with its deliveries.
type storyEvent struct {
	ID, Type, Outcome string
	Deliveries        []storyDelivery
}

func readActions(r *request, s *story) error {
	for i, a := range s.EventDetail.Actions {
		if i == shownActions {
			break
		}
		one := storyAction{Action: a, Kind: kindOf(string(a.Status)), After: s.After(a.StartedAt)}
		one.link(r.base())
		if a.PublishedEventID != nil && i < readPublished {
			published, err := readPublishedEvent(r, *a.PublishedEventID)
			if err != nil {
				return err
			}
			one.Published = published
		}
		s.Actions = append(s.Actions, one)
	}
	return nil
}

// link sets the effect of an action, and the status that matters most.
func (a *storyAction) link(base string) {
	execution := cmp.Or(a.TaskExecutionID, a.WorkflowExecutionID)
	switch {
	case execution != nil:
		a.Href = base + "/work/" + *execution
		if a.EffectStatus != nil && (*a.EffectStatus == "dead" || *a.EffectStatus == "failed" || *a.EffectStatus == "cancelled") {
			a.Retryable = *execution
		}
	case a.PromiseID != nil:
		a.Href = base + "/promises/" + *a.PromiseID
	case a.PublishedEventID != nil:
		a.Href = base + "/events/" + *a.PublishedEventID
	}
	if a.EffectStatus != nil && a.Kind == "ok" {
		a.Kind = kindOf(*a.EffectStatus)
	}
}

// Word returns the state of the effect, or of the action before it has one.
func (a *storyAction) Word() string {
	if a.EffectStatus != nil && a.Status == client.ActionStatusSuccess {
		return *a.EffectStatus
	}
	return string(a.Status)
}

func readPublishedEvent(r *request, id string) (*storyEvent, error) {
	e, err := r.api.GetEvent(r.Context(), r.tenant, id, client.GetEventParams{MaxBodyBytes: new(int64(0))})
	if err != nil {
		return nil, unlessRefused(err)
	}
	out := &storyEvent{ID: e.ID, Type: e.EventType, Outcome: string(e.Outcome)}
	for i, d := range e.Deliveries {
		if i == shownDeliveries {
			break
		}
		out.Deliveries = append(out.Deliveries, storyDelivery{Delivery: d, Name: destinationOf(d, nil), Kind: kindOf(string(d.Status))})
	}
	return out, nil
}

// storyDelivery is a delivery with its attempts, if the page has read them.
type storyDelivery struct {
	client.Delivery
	Name     string // of the destination
	Kind     string
	After    string
	Took     time.Duration // from the event to the end; 0 before that
	Attempts []client.DeliveryAttempt
}

// IsFailed reports whether the attempts need a person's attention.
func (d storyDelivery) IsFailed() bool {
	return d.Status == client.DeliveryStatusDead || d.Status == client.DeliveryStatusFailed
}

// readDeliveries reads the deliveries, failed ones first, and the attempts of the first ones.
func readDeliveries(r *request, s *story) error {
	list := slices.Clone(s.EventDetail.Deliveries)
	slices.SortStableFunc(list, func(x, y client.Delivery) int { return severity(x) - severity(y) })
	for i, d := range list[:min(len(list), shownDeliveries)] {
		one := storyDelivery{Delivery: d, Name: destinationOf(d, s.EventDetail.Actions), Kind: kindOf(string(d.Status)), After: s.After(d.CreatedAt)}
		if d.CompletedAt != nil {
			one.Took = max(0, d.CompletedAt.Sub(d.CreatedAt))
		}
		if i < readAttempts && d.AttemptCount > 0 {
			detail, err := r.api.GetDelivery(r.Context(), r.tenant, d.ID)
			if err := unlessRefused(err); err != nil {
				return err
			}
			one.Attempts = detail.Attempts
		}
		s.Deliveries = append(s.Deliveries, one)
	}
	return nil
}

// severity orders deliveries: what has failed comes first.
func severity(d client.Delivery) int {
	order := []client.DeliveryStatus{client.DeliveryStatusDead, client.DeliveryStatusFailed, client.DeliveryStatusAcquired, client.DeliveryStatusPending}
	if i := slices.Index(order, d.Status); i >= 0 {
		return i
	}
	return len(order)
}

// destinationOf returns the name of a delivery's subscription or route.
func destinationOf(d client.Delivery, actions []client.Action) string {
	switch {
	case d.SubscriptionName != nil:
		return *d.SubscriptionName
	case d.RouteID == nil:
		return "a deleted subscription"
	}
	for _, a := range actions {
		if a.RouteID == *d.RouteID {
			return a.RouteName
		}
	}
	return "a route"
}

// kindOf returns the kind of a state of an action, a delivery or an effect.
func kindOf(state string) string {
	switch state {
	case "success", "completed", "resolved", "succeeded":
		return "ok"
	case "acquired", "running", "in_progress":
		return "running"
	case "pending", "suspended":
		return "waiting"
	case "failed", "dead", "rejected", "expired":
		return "failed"
	}
	return "muted"
}
