package pg

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

func TestSettleStoresThePlannedEffects(t *testing.T) {
	f := setUp(t)
	e := f.leasedEvents(1)[0]
	task := f.executionAction(eventhook.Task, "", func(x *eventhook.Execution) { x.Input = []byte(`{"a": 1}`) })
	f.settle(f.db, f.plan(e, f.executionAction(eventhook.Workflow, "order-1"), task, resolveAction("p", `{"paid":true}`)))

	got := f.storedEvent(e)
	same(t, "event", got.Status, eventhook.EventDelivered)
	same(t, "processed at", got.ProcessedAt.UTC(), noon)
	actions := f.actions(e)
	same(t, "actions", len(actions), 3)
	for _, a := range actions {
		if a.Status != eventhook.ActionSuccess || a.Attempts != 1 || a.ErrorMessage != "" || !a.StartedAt.Equal(noon) {
			t.Errorf("action %d: %+v, want a success of one attempt at noon", a.TargetIndex, a)
		}
	}
	x := f.storedExecution(task.Effect.Execution.ID)
	x.CreatedAt, *x.DueAt = x.CreatedAt.UTC(), x.DueAt.UTC()
	want := *task.Effect.Execution
	want.Status, want.CreatedAt, want.DueAt = eventhook.ExecutionPending, noon, &noon
	same(t, "task", x, want)
	same(t, "executions", f.count("execution", "true"), 2)
	same(t, "held promises", f.count("promise", "is_held AND status = 'resolved'"), 1)
}

func TestSettleOfAnEventWithoutARoute(t *testing.T) {
	f := setUp(t)
	e := f.leasedEvents(1)[0]
	f.settle(f.db, f.plan(e))
	same(t, "event", f.storedEvent(e).Status, eventhook.EventUnrouted)
}

func TestSettleWritesNothingOfALostLease(t *testing.T) {
	f := setUp(t)
	batch := f.leasedEvents(3)
	f.clock.Advance(lease)
	stolen := f.claimEvents(f.other, 10)
	same(t, "claimed by the other", len(stolen), 3)
	kept := f.leasedEvents(2)
	f.settle(f.other, f.plan(stolen[0]))
	late := make([]*effects.Settlement, 0, 5)
	for i, e := range append(batch, kept...) {
		key := fmt.Sprint(i)
		late = append(late, f.plan(e, f.executionAction(eventhook.Task, key), resolveAction("p"+key, "1")))
	}
	lost, err := f.db.SettleEvents(t.Context(), late)
	f.must(err)
	same(t, "lost", len(lost), 3)
	for _, s := range lost {
		same(t, "actions of a lost event", len(f.actions(s.Event)), 0)
	}
	same(t, "executions", f.count("execution", "true"), 2)
	same(t, "promises", f.count("promise", "true"), 2)
	same(t, "keys", f.count("idempotency_key", "true"), 2)
	for _, e := range kept {
		same(t, "another event of the batch", f.storedEvent(e).Status, eventhook.EventDelivered)
	}
	// The new leases are not affected.
	f.settle(f.other, f.plan(stolen[1], f.executionAction(eventhook.Task, "0")), f.plan(stolen[2]))
	same(t, "executions then", f.count("execution", "true"), 3)
}

func TestSettleOfTheSameTwiceIsALostLease(t *testing.T) {
	f := setUp(t)
	s := f.plan(f.leasedEvents(1)[0], f.executionAction(eventhook.Task, "k"), f.executionAction(eventhook.Task, ""))
	f.settle(f.db, s)
	lost, err := f.db.SettleEvents(t.Context(), []*effects.Settlement{s}) // as after a commit whose result was lost
	f.must(err)
	same(t, "lost", len(lost), 1)
	same(t, "executions", f.count("execution", "true"), 2)
	same(t, "event", f.storedEvent(s.Event).Status, eventhook.EventDelivered)
}

func TestSettleSchedulesRetries(t *testing.T) {
	f := setUp(t)
	e := f.leasedEvents(1)[0]
	made := f.executionAction(eventhook.Task, "")
	next := []effects.PlannedAction{made, failedAction("no such thing"), resolveAction("p", "1")}
	for retry, delay := range []time.Duration{10 * time.Second, 30 * time.Second, 90 * time.Second} {
		f.settle(f.db, f.plan(e, next...))
		got := f.storedEvent(e)
		same(t, "status", got.Status, eventhook.EventFailed)
		same(t, "retries", got.RetryCount, retry+1)
		same(t, "next", got.NextRetryAt.Sub(f.clock.Now()), delay)
		f.clock.Advance(delay - time.Second)
		same(t, "claimed too early", len(f.claimEvents(f.db, 10)), 0)
		f.clock.Advance(time.Second)
		claimed := f.claimEvents(f.db, 10)
		same(t, "claimed in time", len(claimed), 1)
		e = claimed[0]
		same(t, "retries of the claimed", e.RetryCount, retry+1)
		next = []effects.PlannedAction{failedAction("must not be seen"), failedAction("no such thing")} // the store keeps actions that succeeded
	}
	f.settle(f.db, f.plan(e, failedAction("no such thing"), failedAction("no such thing")))
	got := f.storedEvent(e)
	same(t, "status at the end", got.Status, eventhook.EventDead)
	same(t, "retries at the end", got.RetryCount, 3)
	same(t, "error at the end", got.LastError, "no such thing")
	same(t, "due at the end", f.count("event", "due_at IS NOT NULL"), 0)

	actions := f.actions(e)
	same(t, "actions", len(actions), 3)
	for _, a := range actions {
		want := eventhook.Action{Status: eventhook.ActionSuccess, Attempts: 1}
		if a.TargetIndex == 1 {
			want = eventhook.Action{Status: eventhook.ActionFailed, Attempts: 4, ErrorMessage: "no such thing"}
		}
		got := eventhook.Action{Status: a.Status, Attempts: a.Attempts, ErrorMessage: a.ErrorMessage}
		same(t, fmt.Sprintf("action %d", a.TargetIndex), got, want)
	}
	same(t, "execution of the first try", actions[0].ExecutionID, made.Effect.Execution.ID)
}

func TestSettleOfAPermanentFailureIsDeadAtOnce(t *testing.T) {
	f := setUp(t)
	e := f.leasedEvents(1)[0]
	a := failedAction("never")
	a.Permanent = true
	f.settle(f.db, f.plan(e, a, f.executionAction(eventhook.Task, "")))
	same(t, "event", f.storedEvent(e).Status, eventhook.EventDead)
	same(t, "executions", f.count("execution", "true"), 1)
}

func TestARetriedActionSucceeds(t *testing.T) {
	f := setUp(t)
	e := f.leasedEvents(1)[0]
	f.settle(f.db, f.plan(e, f.executionAction(eventhook.Task, "k"), failedAction("not yet"), f.executionAction(eventhook.Task, "k")))
	f.clock.Advance(10 * time.Second)
	e = f.claimEvents(f.db, 1)[0]
	same(t, "completed actions", f.countDoneActions(e), 2)

	s := f.plan(e, effects.PlannedAction{}, f.executionAction(eventhook.Task, ""), effects.PlannedAction{})
	f.settle(f.db, s)
	same(t, "event", f.storedEvent(e).Status, eventhook.EventDelivered)
	got := f.actions(e)[1]
	same(t, "status", got.Status, eventhook.ActionSuccess)
	same(t, "attempts", got.Attempts, 2)
	same(t, "error", got.ErrorMessage, "")
	same(t, "execution", got.ExecutionID, s.Actions[0].Effect.Execution.ID)
	same(t, "completed actions after the retry", f.countDoneActions(e), 3)
	var ended []time.Duration // since noon
	for _, a := range f.actions(e) {
		ended = append(ended, a.CompletedAt.Sub(noon))
	}
	same(t, "completion times", ended, []time.Duration{0, 10 * time.Second, 0})
}

func TestATargetKeyCreatesOneExecutionADay(t *testing.T) {
	f := setUp(t)
	settle := func(typ eventhook.ExecutionType) eventhook.Action {
		e := f.leasedEvents(1)[0]
		f.settle(f.db, f.plan(e, f.executionAction(typ, "order-1")))
		same(t, "event", f.storedEvent(e).Status, eventhook.EventDelivered)
		return f.actions(e)[0]
	}
	wantSkipped := func(claim string, a, of eventhook.Action) {
		t.Helper()
		if a.Status != eventhook.ActionSkipped || a.ExecutionID != of.ExecutionID {
			t.Errorf("%s: %s with %s, want skipped with %s", claim, a.Status, a.ExecutionID, of.ExecutionID)
		}
	}
	first := settle(eventhook.Task)
	same(t, "first", first.Status, eventhook.ActionSuccess)
	wantSkipped("second event", settle(eventhook.Task), first)
	same(t, "the same key for a workflow", settle(eventhook.Workflow).Status, eventhook.ActionSuccess)
	f.clock.Advance(24*time.Hour - time.Second)
	wantSkipped("just before a day is over", settle(eventhook.Task), first)
	f.clock.Advance(time.Second)
	again := settle(eventhook.Task)
	same(t, "after a day", again.Status, eventhook.ActionSuccess)
	wantSkipped("after the new one", settle(eventhook.Task), again)

	both := f.leasedEvents(2)
	f.settle(f.db, f.plan(both[0], f.executionAction(eventhook.Task, "order-2")), f.plan(both[1], f.executionAction(eventhook.Task, "order-2"), f.executionAction(eventhook.Task, "order-2")))
	one := f.actions(both[0])[0]
	for _, a := range f.actions(both[1]) {
		wantSkipped("in one batch", a, one)
	}
	same(t, "executions", f.count("execution", "true"), 4)
}

func TestAFailedActionClaimsNoKey(t *testing.T) {
	f := setUp(t)
	batch := f.leasedEvents(2)
	broken := f.executionAction(eventhook.Task, "k")
	broken.Failure = "no"
	f.settle(f.db, f.plan(batch[0], broken), f.plan(batch[1], f.executionAction(eventhook.Task, "k")))
	same(t, "the next event with the same key", f.actions(batch[1])[0].Status, eventhook.ActionSuccess)
	same(t, "executions", f.count("execution", "true"), 1)
}

func TestConcurrentSettlesCreateOneExecutionPerKey(t *testing.T) {
	f := setUp(t)
	const rounds, keys = 20, 16
	var log bytes.Buffer // records deadlocks, which are retried but must not happen
	logger := slog.New(slog.NewTextHandler(&log, nil))
	loud := func(o *Options) { o.Log = logger }
	one, other := f.open(loud), f.open(loud)
	for round := range rounds {
		events := f.leasedEvents(2 * keys)
		var batches [2][]*effects.Settlement
		for i := range keys {
			key, promise := fmt.Sprintf("%d/%d", round, i), fmt.Sprintf("p%d/%d", round, keys-i)
			batches[0] = append(batches[0], f.plan(events[2*i], f.executionAction(eventhook.Task, key), resolveAction(promise, "1")))
			batches[1] = append([]*effects.Settlement{f.plan(events[2*i+1], resolveAction(promise, "2"), f.executionAction(eventhook.Task, key))}, batches[1]...)
		}
		concurrently(
			func() { f.settle(one, batches[0]...) },
			func() { f.settle(other, batches[1]...) })
	}
	same(t, "log", log.String(), "")
	same(t, "executions", f.count("execution", "true"), rounds*keys)
	const ofActions = "event e CROSS JOIN json_array_elements(e.actions) a"
	same(t, "successes", f.count(ofActions, "a->>'s' IS NULL"), 2*rounds*keys)
	same(t, "skipped", f.count(ofActions, "a->>'s' = 'skipped'"), 2*rounds*keys)
	same(t, "delivered", f.count("event", "status = 'delivered'"), 2*rounds*keys)
}

func TestARefusedEventDoesNotAffectTheOtherSettlements(t *testing.T) {
	f := setUp(t)
	for _, size := range []int{1, 2, 5} {
		events := f.leasedEvents(size)
		var batch []*effects.Settlement
		for i, e := range events {
			a := f.executionAction(eventhook.Task, "", func(x *eventhook.Execution) { x.Input = []byte(`{"a":1}`) })
			if i == size/2 {
				a.Effect.Execution.Input = []byte(`{"a":`)
			}
			batch = append(batch, f.plan(e, a))
		}
		f.settle(f.db, batch...)
		for i, e := range events {
			got, want := f.storedEvent(e), eventhook.EventDelivered
			if i == size/2 {
				want = eventhook.EventDead
				same(t, "error", got.LastError, "the database refused the effect of this action")
			}
			same(t, fmt.Sprintf("event %d of %d", i, size), got.Status, want)
		}
	}
	same(t, "executions", f.count("execution", "true"), 5)
}
