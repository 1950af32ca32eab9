package routetest

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// retryOf claims an event at its retry.
func (q Queue) retryOf(t *testing.T, s *effects.Settlement) *eventhook.Event {
	t.Helper()
	q.Advance(s.NextRetryAt.Sub(q.Now()))
	return q.claimOne(t)
}

func keepsActions(t *testing.T, q Queue) {
	s := q.plan(q.held(t), task, fails)
	q.wantSettled(t, s)
	e := q.retryOf(t, s)
	before := at(q.actions(t, e), 0)
	if before == nil || before.ExecutionID != s.Actions[0].Effect.Execution.ID || before.Attempts != 1 {
		t.Fatalf("got %+v, want the action with its execution", before)
	}
	if a := at(q.actions(t, e), 1); a == nil || a.ErrorMessage != "nothing at body.id" || a.Attempts != 1 {
		t.Errorf("got %+v, want the action with its error", a)
	}
	q.wantSettled(t, q.again(t, e, task, task))
	q.wantStatus(t, "tried again", e, eventhook.EventDelivered)
	q.wantActions(t, "tried again", e, success, success)
	if a := at(q.actions(t, e), 0); a.ExecutionID != before.ExecutionID {
		t.Errorf("got execution %s, want that of the first try, %s", a.ExecutionID, before.ExecutionID)
	}
	if a := at(q.actions(t, e), 1); a.Attempts != 2 || a.ErrorMessage != "" {
		t.Errorf("got %d attempts and %q, want 2 and no error", a.Attempts, a.ErrorMessage)
	}
}

func waitsForRequests(t *testing.T, q Queue) {
	e := q.held(t)
	s := q.plan(e, request, request)
	q.wantSettled(t, s)
	q.wantStatus(t, "with its requests", e, eventhook.EventProcessing)
	q.wantActions(t, "with its requests", e, pending, pending)
	q.wantNoneDue(t)
	if unsettled := q.settle(t, q.plan(e, task)); len(unsettled) != 1 {
		t.Errorf("settled again: got %d unsettled, want 1: its lease has ended", len(unsettled))
	}
	if err := q.ReleaseEvents(t.Context(), []*eventhook.Event{e}); err != nil {
		t.Fatal(err)
	}
	q.wantNoneDue(t)
	q.EndRequest(s.Actions[0].Effect.Request.Delivery, true)
	q.wantStatus(t, "one was sent", e, eventhook.EventProcessing)
	q.EndRequest(s.Actions[1].Effect.Request.Delivery, true)
	q.wantStatus(t, "both were sent", e, eventhook.EventDelivered)
	q.wantActions(t, "both were sent", e, success, success)
	if a := at(q.actions(t, e), 0); !a.IsRequest || a.Attempts != 1 {
		t.Errorf("got %+v, want a request that took one attempt", a)
	}
	q.wantNoneDue(t)
}

func waitsForEarlier(t *testing.T, q Queue) {
	first := q.plan(q.held(t), request, fails)
	q.wantSettled(t, first)
	if first.Status != eventhook.EventFailed {
		t.Errorf("got %s, want failed: the failure takes precedence", first.Status)
	}
	e := q.retryOf(t, first)
	s := q.again(t, e, request, task)
	if len(s.Actions) != 1 || s.OpenRequests != 1 {
		t.Fatalf("got %d actions and %d open requests, want 1 of each", len(s.Actions), s.OpenRequests)
	}
	q.wantSettled(t, s)
	q.wantStatus(t, "tried again", e, eventhook.EventProcessing)
	q.wantActions(t, "tried again", e, pending, success)
	q.EndRequest(first.Actions[0].Effect.Request.Delivery, true)
	q.wantStatus(t, "in the end", e, eventhook.EventDelivered)
	q.wantActions(t, "in the end", e, success, success)
	q.wantNoneDue(t)
}

// The request was open when the event was planned. It ends before the settle, which must then end
// the event.
func endsBefore(t *testing.T, q Queue) {
	first := q.plan(q.held(t), request, fails)
	q.wantSettled(t, first)
	e := q.retryOf(t, first)
	s := q.again(t, e, request, task)
	q.EndRequest(first.Actions[0].Effect.Request.Delivery, true)
	q.wantSettled(t, s)
	q.wantStatus(t, "settled", e, eventhook.EventDelivered)
	q.wantActions(t, "settled", e, success, success)
	q.wantNoneDue(t)
}

func deadRequest(t *testing.T, q Queue) {
	e := q.event()
	s := q.plan(e, request, request)
	q.accept(t, &effects.Arrival{Event: e, Plan: s})
	q.Advance(time.Second)
	q.EndRequest(s.Actions[0].Effect.Request.Delivery, false)
	q.wantStatus(t, "one is dead", e, eventhook.EventDead)
	q.EndRequest(s.Actions[1].Effect.Request.Delivery, true)
	q.wantStatus(t, "the other was sent", e, eventhook.EventDead)
	q.wantActions(t, "in the end", e, failed, success)
	q.wantNoneDue(t)
}
