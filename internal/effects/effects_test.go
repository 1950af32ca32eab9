package effects_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

func action(status eventhook.ActionStatus, message string) effects.PlannedAction {
	return effects.PlannedAction{Action: eventhook.Action{Status: status, ErrorMessage: message}}
}

func TestConclude(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	good, skipped := action(eventhook.ActionSuccess, ""), action(eventhook.ActionSkipped, "")
	bad, worse := action(eventhook.ActionFailed, "bad"), action(eventhook.ActionFailed, "worse")
	permanent := action(eventhook.ActionFailed, "permanent")
	permanent.Permanent = true
	pending := action(eventhook.ActionPending, "")
	type outcome struct {
		Status     eventhook.EventStatus
		RetryCount int
		Retry      time.Duration // from now; 0 if there is no retry
		LastError  string
	}
	for _, c := range []struct {
		claim   string
		retried int
		matched int
		open    int // open requests of earlier attempts
		actions []effects.PlannedAction
		want    outcome
	}{
		{"no route matched", 0, 0, 0, nil, outcome{Status: eventhook.EventUnrouted}},
		{"no route matches any more", 2, 0, 0, nil, outcome{Status: eventhook.EventUnrouted, RetryCount: 2}},
		{"all succeeded", 0, 2, 0, list(good, good), outcome{Status: eventhook.EventDelivered}},
		{"a skipped action counts as a success", 0, 2, 0, list(good, skipped), outcome{Status: eventhook.EventDelivered}},
		{"a retry succeeded", 1, 1, 0, list(good), outcome{Status: eventhook.EventDelivered, RetryCount: 1}},
		{"all actions succeeded in an earlier attempt", 1, 2, 0, nil, outcome{Status: eventhook.EventDelivered, RetryCount: 1}},
		{"one action failed", 0, 2, 0, list(good, bad), outcome{eventhook.EventFailed, 1, 10 * time.Second, "bad"}},
		{"the error of the first failed action is reported", 0, 3, 0, list(good, worse, bad), outcome{eventhook.EventFailed, 1, 10 * time.Second, "worse"}},
		{"a failed action takes precedence over a pending one", 0, 3, 0, list(good, pending, bad), outcome{eventhook.EventFailed, 1, 10 * time.Second, "bad"}},
		{"a permanently failed action takes precedence over a pending one", 0, 2, 0, list(pending, permanent), outcome{Status: eventhook.EventDead, LastError: "permanent"}},
		{"a request is open", 0, 2, 0, list(good, pending), outcome{Status: eventhook.EventProcessing}},
		{"a request of an earlier attempt is open", 1, 2, 1, list(good), outcome{Status: eventhook.EventProcessing, RetryCount: 1}},
		{"only a request of an earlier attempt is open", 1, 1, 1, nil, outcome{Status: eventhook.EventProcessing, RetryCount: 1}},
		{"one action failed while a request of an earlier attempt is open", 1, 2, 1, list(bad), outcome{eventhook.EventFailed, 2, 30 * time.Second, "bad"}},
		{"the first retry failed", 1, 1, 0, list(bad), outcome{eventhook.EventFailed, 2, 30 * time.Second, "bad"}},
		{"the second retry failed", 2, 1, 0, list(bad), outcome{eventhook.EventFailed, 3, 90 * time.Second, "bad"}},
		{"the last retry failed", 3, 2, 0, list(good, bad), outcome{Status: eventhook.EventDead, RetryCount: 3, LastError: "bad"}},
		{"the failure is permanent", 0, 2, 0, list(good, permanent), outcome{Status: eventhook.EventDead, LastError: "permanent"}},
		{"the first of two failures can be retried", 0, 2, 0, list(bad, permanent), outcome{eventhook.EventFailed, 1, 10 * time.Second, "bad"}},
		{"the second of two failures can be retried", 0, 2, 0, list(permanent, bad), outcome{eventhook.EventFailed, 1, 10 * time.Second, "permanent"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			event := eventhook.Event{Status: eventhook.EventProcessing, RetryCount: c.retried}
			before := event
			s := &effects.Settlement{Event: &event, Matched: c.matched, OpenRequests: c.open, Actions: c.actions, Retry: eventhook.EventRetry}
			for _, time := range []string{"once", "twice"} {
				s.Conclude(now)
				got := outcome{s.Status, s.RetryCount, 0, s.LastError}
				if !s.NextRetryAt.IsZero() {
					got.Retry = s.NextRetryAt.Sub(now)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", time, diff)
				}
			}
			if diff := cmp.Diff(before, event); diff != "" {
				t.Errorf("the event changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestConcludeReplacesAnEarlierResult(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := &effects.Settlement{Event: &eventhook.Event{}, Matched: 1, Actions: list(action(eventhook.ActionFailed, "bad")), Retry: eventhook.EventRetry}
	s.Conclude(now)
	s.Actions = list(action(eventhook.ActionSuccess, ""))
	s.Conclude(now)
	if s.Status != eventhook.EventDelivered || s.RetryCount != 0 || !s.NextRetryAt.IsZero() || s.LastError != "" {
		t.Errorf("got %s, %d retries, next %s, error %q; want delivered, 0 retries, no next retry and no error", s.Status, s.RetryCount, s.NextRetryAt, s.LastError)
	}
}

func list(actions ...effects.PlannedAction) []effects.PlannedAction { return actions }

func TestAnEventThatFailsAsAWholeIsRetried(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for retries, want := range map[int]eventhook.EventStatus{0: eventhook.EventFailed, 2: eventhook.EventFailed, 3: eventhook.EventDead} {
		s := &effects.Settlement{Event: &eventhook.Event{RetryCount: retries}, Failure: "was leased too often", Retry: eventhook.EventRetry}
		s.Conclude(now)
		if s.Status != want || s.LastError != "was leased too often" {
			t.Errorf("after %d retries: got %s, %q; want %s with the failure", retries, s.Status, s.LastError, want)
		}
	}
}

func TestIsPlanned(t *testing.T) {
	for _, c := range []struct {
		claim     string
		status    eventhook.EventStatus
		plan      *effects.Settlement
		isRefused bool
		want      bool
	}{
		{"stored with its plan", eventhook.EventDelivered, &effects.Settlement{}, false, true},
		{"stored with its plan, with open requests", eventhook.EventProcessing, &effects.Settlement{}, false, true},
		{"stored without a plan", eventhook.EventProcessing, nil, false, false},
		{"the plan was stale", eventhook.EventPending, &effects.Settlement{IsStale: true}, false, false},
		{"the plan was refused", eventhook.EventProcessing, &effects.Settlement{}, true, false},
		{"a duplicate", eventhook.EventDuplicate, &effects.Settlement{}, false, false},
		{"not stored", "", &effects.Settlement{}, false, false},
	} {
		a := effects.Arrival{Event: &eventhook.Event{Status: c.status}, Plan: c.plan, IsPlanRefused: c.isRefused}
		if got := a.IsPlanned(); got != c.want {
			t.Errorf("%s: got %t, want %t", c.claim, got, c.want)
		}
	}
}

func TestRows(t *testing.T) {
	s := &effects.Settlement{Actions: list(action(eventhook.ActionSuccess, ""), action(eventhook.ActionSuccess, ""), action(eventhook.ActionFailed, "bad"))}
	s.Actions[1].Effect.Publication = &effects.Publication{Deliveries: make([]*eventhook.Delivery, 5)}
	if got := s.Rows(); got != 8 {
		t.Errorf("got %d rows, want 3 actions and 5 deliveries", got)
	}
}
