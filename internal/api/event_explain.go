package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

func (s *server) registerEventTest(api huma.API) {
	register(s, api, operation{id: "test-event", method: http.MethodPost, path: base + "/events/{id}/test", scope: eventhook.ScopeRead, tag: "events", class: trials,
		summary: "Explain how a stored event would be routed now",
		about: "Returns for each route of the event's source, including disabled ones, whether the route matches, why, and the input of its targets. " +
			"No target is executed. 409 if the event did not come from a source or its body is past the retention period."}, s.testEvent)
}

// eventTestView is the evaluation of the current routes for a stored event.
type eventTestView struct {
	Routes []routeExplanationView `json:"routes" doc:"One explanation per route, in the order of evaluation; empty if the source is deleted."`
}

type eventTestAnswer struct{ Body eventTestView }

// Why an event cannot be evaluated by routes.
var (
	errNoSource = &eventhook.Error{Kind: eventhook.KindConflict, Message: "The event did not come from a source, so that no routes apply to it."}
	errNoBody   = &eventhook.Error{Kind: eventhook.KindConflict, Message: "The event's body is past the retention period, so that routes cannot be evaluated."}
)

func (s *server) testEvent(ctx context.Context, by caller, in *EventPath) (*eventTestAnswer, error) {
	id, err := eventhook.ParseID[eventhook.Event](in.ID)
	if err != nil {
		return nil, err
	}
	e, err := s.Events.RoutedEvent(ctx, by.tenant, id)
	switch {
	case err != nil:
		return nil, err
	case e.SourceID.IsZero():
		return nil, errNoSource
	case e.Headers == nil:
		return nil, errNoBody
	}
	by.reservation.addUnchecked(int64(len(e.Body)) * shownWeight)
	routes, err := s.Routes.ExplainRoutes(ctx, e.SourceID, e)
	if err != nil {
		return nil, err
	}
	return &eventTestAnswer{eventTestView{viewRoutes(routes)}}, nil
}
