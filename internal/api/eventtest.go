package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

func (s *server) registerEventTest(api huma.API) {
	register(s, api, operation{id: "test-event", method: http.MethodPost, path: base + "/events/{id}/test", scope: eventhook.ScopeRead, tag: "events", class: trials,
		summary: "Explain what today's routes would do with a stored event",
		about: "Tells of each route of the event's source, disabled ones too, whether it takes the event, why, and what its targets would get. " +
			"Nothing is done. An event that no source has brought, or whose body is past its retention, is a 409."}, s.testEvent)
}

// eventTestView says what would happen now.
type eventTestView struct {
	Routes []routeExplanationView `json:"routes" doc:"In their order; none when the source is gone."`
}

type eventTestAnswer struct{ Body eventTestView }

// Why the routes cannot be asked about an event.
var (
	errNoSource = &eventhook.Error{Kind: eventhook.KindConflict, Message: "The event came from no source, and so goes through no routes."}
	errNoBody   = &eventhook.Error{Kind: eventhook.KindConflict, Message: "The event's body is past its retention, so that nobody can tell what routes would make of it."}
)

func (s *server) testEvent(ctx context.Context, who caller, in *EventPath) (*eventTestAnswer, error) {
	id, err := eventhook.ParseID[eventhook.Event](in.ID)
	if err != nil {
		return nil, err
	}
	e, err := s.Events.RoutedEvent(ctx, who.tenant, id)
	switch {
	case err != nil:
		return nil, err
	case e.SourceID.IsZero():
		return nil, errNoSource
	case e.Headers == nil:
		return nil, errNoBody
	}
	who.hold.add(int64(len(e.Body)) * shownWeight)
	routes, err := s.Routes.ExplainRoutes(ctx, e.SourceID, e)
	if err != nil {
		return nil, err
	}
	return &eventTestAnswer{eventTestView{viewRoutes(routes)}}, nil
}
