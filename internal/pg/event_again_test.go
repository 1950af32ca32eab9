package pg

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

func (f *fixture) again(events ...*eventhook.Event) eventhook.EventCopies {
	f.Helper()
	selected, _, err := f.db.SelectAgain(f.Context(), f.tenant, eventhook.EventSelection{IDs: ids(events...)})
	f.must(err)
	copies, err := f.db.ReprocessAgain(f.Context(), operator, f.tenant, selected)
	f.must(err)
	return copies
}

func TestADeliveredEventIsProcessedAgainAndAgain(t *testing.T) {
	f := setUp(t)
	e := f.endedEvent(eventhook.EventDelivered, withKey("k"), func(e *eventhook.Event) { e.RequestID = "r-1" })
	f.clock.Advance(26 * time.Hour) // in another partition
	first := f.again(e, e)
	f.clock.Advance(time.Second)
	second := f.again(e)
	same(t, "new events", []int{len(first.IDs), len(first.Skipped), len(second.IDs)}, []int{1, 0, 1})
	claimed := f.claimEvents(f.other, 10)
	same(t, "claimed", len(claimed), 2)
	for i, c := range claimed {
		same(t, "new event", []any{c.ID, c.ReprocessedFrom, c.EventType, string(c.Body), string(c.Headers), c.Trace(), c.RequestID, c.SourceSlug},
			[]any{[]eventhook.EventID{first.IDs[0], second.IDs[0]}[i], e.ID, e.EventType, string(e.Body), string(e.Headers), e.Trace(), "r-1", "crm"})
		f.settle(f.other, f.plan(c, f.executionAction(eventhook.Task, "")))
	}
	same(t, "executions", f.count("execution", "true"), 3)
	same(t, "the old event", f.storedEvent(e).Status, eventhook.EventDelivered)
	third := f.again(claimed[0])
	copied, err := f.db.Event(t.Context(), f.tenant, third.IDs[0])
	f.must(err)
	same(t, "again of a new event", []any{copied.ReprocessedFrom, copied.Trace()}, []any{claimed[0].ID, e.Trace()})
	same(t, "audit entries", f.count("audit_log", "action = 'events.reprocessed_again'"), 3)
}

func TestEventsThatAreNotProcessedAgainAreNamed(t *testing.T) {
	f := setUp(t)
	failed, processing, duplicate := f.endedEvent(eventhook.EventFailed), f.endedEvent(eventhook.EventProcessing), f.event(withKey("k"))
	f.endedEvent(eventhook.EventDelivered, withKey("k"))
	f.must(f.db.Accept(t.Context(), arrivals(duplicate)))
	same(t, "a duplicate", f.storedEvent(duplicate).Status, eventhook.EventDuplicate)
	bodyless, sourceless, unknown := f.endedEvent(eventhook.EventDead), f.endedEvent(eventhook.EventDead), f.event()
	f.exec(`DELETE FROM eventhook.event_payload WHERE event_id = $1`, [16]byte(bodyless.ID))
	f.exec(`UPDATE eventhook.event SET source_id = NULL, origin = 'system' WHERE id = $1`, [16]byte(sourceless.ID))
	got := f.again(failed, processing, bodyless, sourceless, unknown, duplicate)
	same(t, "new events", len(got.IDs), 1)
	same(t, "skipped", got.Skipped, []eventhook.SkippedEvent{{ID: failed.ID, Reason: skippedNotFinal}, {ID: processing.ID, Reason: skippedNotFinal},
		{ID: bodyless.ID, Reason: skippedNoBody}, {ID: sourceless.ID, Reason: skippedNoSource}, {ID: unknown.ID, Reason: skippedNotFound}})
	copies, err := f.db.ReprocessAgain(t.Context(), operator, f.secondTenant(), ids(duplicate))
	f.must(err)
	same(t, "events of another tenant", len(copies.IDs), 0)
	f.clock.Advance(time.Second)
	selected, repeatable, err := f.db.SelectAgain(t.Context(), f.tenant, eventhook.EventSelection{Filter: eventhook.EventFilter{Limit: 100}})
	f.must(err)
	same(t, "that can be processed again", repeatable, []eventhook.RepeatableEvent{{ID: selected[len(selected)-1], Bytes: repeatable[0].Bytes}})
	same(t, "the size of its payload", repeatable[0].Bytes, queryValue[int](f, `SELECT (length(headers) + length(body))::int FROM eventhook.event_payload WHERE event_id = $1`, [16]byte(repeatable[0].ID)))
	copies, err = f.db.ReprocessAgain(t.Context(), operator, f.tenant, selected)
	f.must(err)
	same(t, "by filter, without the duplicate", len(copies.IDs), 1)
}

// TestAReplacedRouteDoesNotMakeAReprocessedEventDead: the dead request of a route that was
// replaced stays dead.
func TestAReplacedRouteDoesNotMakeAReprocessedEventDead(t *testing.T) {
	f := setUp(t)
	e, deliveries := f.eventWithRequests(1)
	f.settleRequest(deliveries[0], eventhook.DeliveryDead)
	same(t, "the event", f.storedEvent(e).Status, eventhook.EventDead)
	f.clock.Advance(time.Minute)
	f.reprocess(f.db, eventhook.EventSelection{IDs: ids(e)})
	f.exec(`UPDATE eventhook.delivery SET route_id = $1`, [16]byte(eventhook.NewID[eventhook.Route](noon))) // as if the route were new
	f.exec(`UPDATE eventhook.event SET status = 'processing', due_at = NULL`)
	f.must(f.inSession(func(s *txSession) error { return s.lockAndConclude(e) }))
	same(t, "the event after it was routed again", f.storedEvent(e).Status, eventhook.EventDelivered)
	outcome, err := f.db.EventOutcome(t.Context(), new(f.storedEvent(e)), f.actions(e))
	f.must(err)
	same(t, "its outcome", outcome.Outcome, eventhook.OutcomeSucceeded)
}

func (f *fixture) inSession(do func(*txSession) error) error {
	f.Helper()
	s := f.session()
	if err := do(s); err != nil {
		return err
	}
	return s.commit()
}

func TestTheOutcomeFollowsTheEffects(t *testing.T) {
	f := setUp(t)
	to := new(f.subscription())
	e := f.leasedEvents(1)[0]
	task, published := f.executionAction(eventhook.Task, ""), f.publishAction("payment.made", "", `{}`, to)
	f.settle(f.db, f.plan(e, task, published))
	want := func(state string, outcome eventhook.Outcome, failures int) eventhook.EventOutcome {
		t.Helper()
		o, err := f.db.EventOutcome(t.Context(), new(f.storedEvent(e)), f.actions(e))
		f.must(err)
		same(t, state, []any{o.Outcome, len(o.Failures)}, []any{outcome, failures})
		return o
	}
	o := want("a new task", eventhook.OutcomeInProgress, 0)
	same(t, "states", []any{o.Executions[task.Effect.Execution.ID], o.Published[published.Effect.Publication.ID]},
		[]any{eventhook.ExecutionPending, eventhook.OutcomeInProgress})
	f.exec(`UPDATE eventhook.execution SET status = 'completed', due_at = NULL, completed_at = now()`)
	want("a delivery is owed by a published event", eventhook.OutcomeInProgress, 0)
	f.exec(`UPDATE eventhook.delivery SET status = 'success', due_at = NULL, completed_at = now()`)
	want("all ended", eventhook.OutcomeSucceeded, 0)
	f.exec(`UPDATE eventhook.delivery SET status = 'dead', last_error = 'down'`)
	o = want("a dead delivery", eventhook.OutcomeFailed, 1)
	same(t, "the failure", []any{o.Failures[0].Type, o.Failures[0].EventID, o.Failures[0].Error}, []any{eventhook.FailedDelivery, published.Effect.Publication.ID, "down"})
	f.exec(`UPDATE eventhook.execution SET status = 'dead', error = 'exit status 2'`)
	want("a dead task, too", eventhook.OutcomeFailed, 2)
	f.exec(`UPDATE eventhook.delivery SET status = 'pending', due_at = now(), completed_at = NULL`)
	want("a dead task and an open delivery", eventhook.OutcomeFailed, 1)
}
