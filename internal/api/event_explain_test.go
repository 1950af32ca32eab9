package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/pg"
)

func (r *fixture) testEvent(id eventhook.EventID) *answer {
	r.Helper()
	return r.admin("POST", T("acme")+"/events/"+id.String()+"/test", nil)
}

func TestEventIsTestedAgainstTheCurrentRoutes(t *testing.T) {
	r := setUp(t)
	e := r.event(func(e *eventhook.Event) { e.RequestID = "r-1" })
	r.settle(e, r.plannedExecution(eventhook.Task, "build"))
	id := eventhook.NewID[eventhook.Route](noon)
	r.routes.list = []api.RouteExplanation{
		{ID: id, Name: "large", Reason: "body.n is 1, wanted $gte 1000"},
		{ID: id, Name: "all", Matched: true, Reason: "because", Actions: []api.ActionExplanation{{TargetType: "task", Input: json.RawMessage(`{"n":1}`)}}},
	}
	got := r.testEvent(e.ID).want(http.StatusOK).object()
	want := map[string]any{"routes": []any{
		map[string]any{"id": id.String(), "name": "large", "matched": false, "reason": "body.n is 1, wanted $gte 1000", "actions": []any{}},
		map[string]any{"id": id.String(), "name": "all", "matched": true, "reason": "because", "actions": []any{
			map[string]any{"target_type": "task", "input": map[string]any{"n": 1.0}}}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	asked := r.routes.event
	if r.routes.source != r.crm || asked.ID != e.ID || asked.SourceSlug != "crm" || asked.RequestID != "r-1" || asked.TraceID != "" || string(asked.Body) != `{"n":1}` {
		t.Errorf("ExplainRoutes got the source %s and the event %+v, want crm and the event as it was processed", r.routes.source, asked)
	}
	before, after := len(r.list(T("acme")+"/work").Items), r.list(T("acme") + "/events").Items[0]
	if before != 1 || after["status"] != "delivered" {
		t.Errorf("the test left %d executions and the event %v, want 1, delivered", before, after["status"])
	}
}

func TestEventsThatCannotBeTested(t *testing.T) {
	r := setUp(t)
	r.must(r.db.MaintainPartitions(t.Context(), 5, pg.Retention{}))
	bare := r.event()
	r.settle(bare) // retention keeps the bodies of open events
	r.clock.Advance(4 * 24 * time.Hour)
	r.must(r.db.MaintainPartitions(t.Context(), 5, pg.Retention{BodiesDays: 1}))
	published := r.event(func(e *eventhook.Event) { e.SourceID, e.Origin = eventhook.SourceID{}, eventhook.OriginAPI })
	broken := r.event()
	for _, c := range []struct {
		claim  string
		id     eventhook.EventID
		status int
		detail string
	}{
		{"an unknown event", eventhook.NewID[eventhook.Event](noon), http.StatusNotFound, "no such event"},
		{"a published event", published.ID, http.StatusConflict, "did not come from a source"},
		{"an event past the retention period", bare.ID, http.StatusConflict, "past the retention period"},
	} {
		if p := r.testEvent(c.id).want(c.status).problem(); !strings.Contains(p.Detail, c.detail) {
			t.Errorf("%s: got %q, want %q", c.claim, p.Detail, c.detail)
		}
	}
	r.admin("POST", T("acme")+"/events/x/test", nil).want(http.StatusBadRequest)
	r.routes.err = errBroken
	r.testEvent(broken.ID).want(http.StatusInternalServerError)
}
