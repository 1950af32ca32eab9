package routetest

import (
	"slices"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

const (
	success = eventhook.ActionSuccess
	failed  = eventhook.ActionFailed
	pending = eventhook.ActionPending
)

func claimedOnce(t *testing.T, q Queue) {
	q.due(t, 3)
	first := q.claim(t, 2)
	second := q.claim(t, 10)
	if len(first) != 2 || len(second) != 1 {
		t.Fatalf("got %d and %d, want 2 and 1", len(first), len(second))
	}
	// A claim returns the oldest events, in any order.
	if newest := second[0]; !newest.ID.Time().After(first[0].ID.Time()) || !newest.ID.Time().After(first[1].ID.Time()) {
		t.Errorf("got the event of %s last, want the newest one", newest.ID.Time())
	}
	for _, e := range slices.Concat(first, second) {
		if e.Status != eventhook.EventProcessing || e.Lease.Token == 0 || e.Lease.Until.Sub(q.Now().Add(lease)).Abs() > time.Millisecond ||
			e.LostLeases != 0 || string(e.Body) != "{}" || e.TenantID != q.Tenant || e.SourceID != q.Source || e.EventType != "push" {
			t.Errorf("claimed %+v", e)
		}
		q.wantStatus(t, "claimed", e, eventhook.EventProcessing)
	}
	if again := q.claim(t, 10); len(again) != 0 {
		t.Errorf("claimed %d again, want none", len(again))
	}
}

func leaseEnds(t *testing.T, q Queue) {
	e := q.held(t)
	q.Advance(lease - time.Second)
	if list := q.claim(t, 10); len(list) != 0 {
		t.Errorf("before its end: claimed %d, want none", len(list))
	}
	q.Advance(time.Second)
	again := q.claimOne(t)
	if again.ID != e.ID || again.Lease.Token != e.Lease.Token+1 || again.LostLeases != 1 || again.RetryCount != 0 {
		t.Errorf("got token %d, %d lost leases, %d retries; want %d, 1, 0", again.Lease.Token, again.LostLeases, again.RetryCount, e.Lease.Token+1)
	}
}

func arrivesLeased(t *testing.T, q Queue) {
	e := q.event()
	e.Lease.Until = q.Now().Add(lease)
	q.accept(t, &effects.Arrival{Event: e})
	if e.Status != eventhook.EventProcessing || e.Lease.Token == 0 {
		t.Errorf("got %s with token %d, want it leased", e.Status, e.Lease.Token)
	}
	if list := q.claim(t, 10); len(list) != 0 {
		t.Errorf("claimed %d, want none", len(list))
	}
	q.wantSettled(t, q.plan(e, task))
	q.wantStatus(t, "settled", e, eventhook.EventDelivered)
	late := q.event()
	late.Lease.Until = q.Now().Add(lease)
	q.accept(t, &effects.Arrival{Event: late})
	q.Advance(lease)
	if got := q.claimOne(t); got.ID != late.ID || got.LostLeases != 1 {
		t.Errorf("after the lease: got %s with %d lost leases, want %s with 1", got.ID, got.LostLeases, late.ID)
	}
}

func storedWithPlan(t *testing.T, q Queue) {
	for _, c := range []struct {
		claim   string
		targets []string
		status  eventhook.EventStatus
		actions []eventhook.ActionStatus
	}{
		{"no route matched", nil, eventhook.EventUnrouted, nil},
		{"tasks", []string{task, task}, eventhook.EventDelivered, []eventhook.ActionStatus{success, success}},
		{"a task and a request", []string{task, request}, eventhook.EventProcessing, []eventhook.ActionStatus{success, pending}},
	} {
		e := q.event()
		e.Lease.Until = q.Now().Add(lease) // not needed, since the event is stored with its plan
		a := &effects.Arrival{Event: e, Plan: q.plan(e, c.targets...)}
		q.accept(t, a)
		if !a.IsPlanned() || e.Status != c.status || e.Lease != (eventhook.Lease{}) {
			t.Errorf("%s: got planned %t, %s, lease %v; want %s without a lease", c.claim, a.IsPlanned(), e.Status, e.Lease, c.status)
		}
		q.wantStatus(t, c.claim, e, c.status)
		q.wantActions(t, c.claim, e, c.actions...)
	}
	q.wantNoneDue(t)
}

// The plans of a batch are accepted or rejected independently.
func stalePlan(t *testing.T, q Queue) {
	first, second, third := q.event(), q.event(), q.event()
	first.Lease.Until = q.Now().Add(lease)
	stale, leftStale := q.plan(first, task), q.plan(second, task, request)
	q.Change()
	batch := []*effects.Arrival{{Event: first, Plan: stale}, {Event: second, Plan: leftStale}, {Event: third, Plan: q.plan(third, task)}}
	q.accept(t, batch...)
	if !stale.IsStale || !leftStale.IsStale || batch[0].IsPlanned() || batch[1].IsPlanned() || !batch[2].IsPlanned() {
		t.Errorf("got stale %t and %t, planned %t, %t and %t; want the third planned alone", stale.IsStale, leftStale.IsStale,
			batch[0].IsPlanned(), batch[1].IsPlanned(), batch[2].IsPlanned())
	}
	q.wantStatus(t, "leased", first, eventhook.EventProcessing)
	q.wantStatus(t, "left", second, eventhook.EventPending)
	q.wantStatus(t, "planned", third, eventhook.EventDelivered)
	q.wantActions(t, "leased", first)
	q.wantActions(t, "left", second)
	if e := q.claimOne(t); e.ID != second.ID {
		t.Errorf("claimed %s, want %s", e.ID, second.ID)
	}
	q.wantSettled(t, q.plan(first, task))
	q.wantActions(t, "planned again", first, success)
}

func duplicate(t *testing.T, q Queue) {
	arrival := func() *effects.Arrival {
		e := q.event()
		e.IdempotencyKey = "k"
		e.Lease.Until = q.Now().Add(lease)
		return &effects.Arrival{Event: e, Plan: q.plan(e, task, request)}
	}
	first, beside, later := arrival(), arrival(), arrival()
	q.accept(t, first, beside)
	q.accept(t, later)
	if !first.IsPlanned() {
		t.Error("the first is not planned, want it stored with its plan")
	}
	for _, a := range []*effects.Arrival{beside, later} {
		e := a.Event
		if a.IsPlanned() || e.Status != eventhook.EventDuplicate || e.DuplicateOf != first.Event.ID || e.Lease != (eventhook.Lease{}) {
			t.Errorf("got planned %t, %s of %s, lease %v; want a duplicate of %s", a.IsPlanned(), e.Status, e.DuplicateOf, e.Lease, first.Event.ID)
		}
		q.wantStatus(t, "a duplicate", e, eventhook.EventDuplicate)
		q.wantActions(t, "a duplicate", e)
	}
	q.wantNoneDue(t)
}

func settledOnce(t *testing.T, q Queue) {
	delivered, unrouted := q.held(t), q.held(t)
	s := q.plan(delivered, task)
	q.wantSettled(t, s, q.plan(unrouted))
	q.wantStatus(t, "a task", delivered, eventhook.EventDelivered)
	q.wantStatus(t, "no route", unrouted, eventhook.EventUnrouted)
	q.wantActions(t, "a task", delivered, success)
	if unsettled := q.settle(t, q.plan(delivered, task)); len(unsettled) != 1 || unsettled[0].IsStale {
		t.Errorf("settled again: got %d unsettled, want 1: its lease has ended", len(unsettled))
	}
	q.wantNoneDue(t)
}

func retried(t *testing.T, q Queue) {
	e := q.held(t)
	s := q.plan(e, task, fails)
	q.wantSettled(t, s)
	if s.Status != eventhook.EventFailed || s.Actions[1].Status != failed {
		t.Errorf("got %s, the action %s; want failed", s.Status, s.Actions[1].Status)
	}
	q.wantStatus(t, "failed", e, eventhook.EventFailed)
	q.wantActions(t, "failed", e, success, failed)
	q.Advance(s.NextRetryAt.Sub(q.Now()) - time.Second)
	if list := q.claim(t, 10); len(list) != 0 {
		t.Errorf("before its retry: claimed %d, want none", len(list))
	}
	q.Advance(time.Second)
	if again := q.claimOne(t); again.RetryCount != 1 || again.LostLeases != 0 {
		t.Errorf("got %d retries and %d lost leases, want 1 and 0", again.RetryCount, again.LostLeases)
	}
}

func leaseLost(t *testing.T, q Queue) {
	late := q.held(t)
	q.Advance(lease)
	now := q.claimOne(t)
	other := q.held(t)
	s := q.plan(late, task)
	if unsettled := q.settle(t, s, q.plan(other, task)); len(unsettled) != 1 || unsettled[0] != s || s.IsStale {
		t.Errorf("got %d unsettled, stale %t; want the one without a lease", len(unsettled), s.IsStale)
	}
	q.wantStatus(t, "without a lease", late, eventhook.EventProcessing)
	q.wantActions(t, "without a lease", late)
	q.wantStatus(t, "beside it", other, eventhook.EventDelivered)
	q.wantSettled(t, q.plan(now, task, task))
	q.wantActions(t, "by its holder", now, success, success)
}

func staleSettlement(t *testing.T, q Queue) {
	e, other := q.held(t), q.held(t)
	s := q.plan(e, task, task)
	q.Change()
	if unsettled := q.settle(t, s, q.plan(other, task)); len(unsettled) != 1 || unsettled[0] != s || !s.IsStale {
		t.Errorf("got %d unsettled, stale %t; want the stale one", len(unsettled), s.IsStale)
	}
	q.wantStatus(t, "stale", e, eventhook.EventProcessing)
	q.wantActions(t, "stale", e)
	q.wantStatus(t, "beside it", other, eventhook.EventDelivered)
	s = q.plan(e, task)
	q.wantSettled(t, s) // under the same lease
	if s.IsStale {
		t.Error("planned again: got it stale, want it settled")
	}
	q.wantActions(t, "planned again", e, success)
}

func released(t *testing.T, q Queue) {
	q.due(t, 2)
	list := q.claim(t, 10)
	later := q.Now().Add(time.Hour)
	list[1].NextRetryAt = &later
	if err := q.ReleaseEvents(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	q.wantStatus(t, "released", list[0], eventhook.EventPending)
	if e := q.claimOne(t); e.ID != list[0].ID || e.LostLeases != 0 {
		t.Errorf("got %s with %d lost leases, want %s with none", e.ID, e.LostLeases, list[0].ID)
	} else {
		q.wantSettled(t, q.plan(e))
	}
	q.Advance(time.Hour)
	if e := q.claimOne(t); e.ID != list[1].ID || e.LostLeases != 0 {
		t.Errorf("an hour later: got %s with %d lost leases, want %s with none", e.ID, e.LostLeases, list[1].ID)
	}
}

func releasedLate(t *testing.T, q Queue) {
	late := q.held(t)
	q.Advance(lease)
	now := q.claimOne(t)
	if err := q.ReleaseEvents(t.Context(), []*eventhook.Event{late}); err != nil {
		t.Fatal(err)
	}
	if list := q.claim(t, 10); len(list) != 0 {
		t.Errorf("claimed %d, want none: the event is leased", len(list))
	}
	q.wantSettled(t, q.plan(now, task))
	if err := q.ReleaseEvents(t.Context(), []*eventhook.Event{now}); err != nil {
		t.Fatal(err)
	}
	q.wantStatus(t, "settled before", now, eventhook.EventDelivered)
}
