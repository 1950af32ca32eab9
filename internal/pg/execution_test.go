package pg

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

func TestClaimWorkMatchesTheQuery(t *testing.T) {
	f := setUp(t)
	f.execution(eventhook.Task)
	f.clock.Advance(time.Second)
	second := f.execution(eventhook.Task, func(x *eventhook.Execution) { x.Kind = "deploy" })
	f.execution(eventhook.Workflow, func(x *eventhook.Execution) { x.Queue = "default" })
	for _, c := range []struct {
		claim  string
		change func(*eventhook.WorkQuery)
		want   int
	}{
		{"another tenant", func(q *eventhook.WorkQuery) { q.Tenant = eventhook.NewID[eventhook.Tenant](noon) }, 0},
		{"another queue", func(q *eventhook.WorkQuery) { q.Queue = "nowhere" }, 0},
		{"another kind", func(q *eventhook.WorkQuery) { q.Kinds = []string{"test", "lint"} }, 0},
		{"one of the kinds", func(q *eventhook.WorkQuery) { q.Kinds = []string{"deploy", "lint"} }, 1},
		{"at most one", func(q *eventhook.WorkQuery) { q.Max = 1 }, 1},
		{"the rest of the queue", func(*eventhook.WorkQuery) {}, 0},
		{"the other queue", func(q *eventhook.WorkQuery) { q.Queue = "default" }, 1},
	} {
		q := f.query()
		c.change(&q)
		same(t, c.claim, len(f.claimWork(f.db, q)), c.want)
	}
	same(t, "execution of the requested kind", f.storedExecution(second).Status, eventhook.ExecutionRunning)
}

func TestClaimWorkLeases(t *testing.T) {
	f := setUp(t)
	first := f.execution(eventhook.Task, func(x *eventhook.Execution) { x.Input = []byte(`{"n":1}`) })
	f.clock.Advance(time.Second)
	f.execution(eventhook.Task)
	q := f.query()
	q.Max = 1
	x := f.claimWork(f.db, q)[0]
	same(t, "the oldest", x.ID, first)
	same(t, "input", string(x.Input), `{"n":1}`)
	same(t, "status", x.Status, eventhook.ExecutionRunning)
	same(t, "attempt", x.Attempt, 1)
	same(t, "lease", x.Lease, eventhook.Lease{Token: 1, Until: f.clock.Now().Add(lease)})
	same(t, "claimed by another", f.claimWork(f.other, q)[0].ID == first, false)
}

func TestWorkIsNeverClaimedTwice(t *testing.T) {
	f := setUp(t)
	const n = 200
	var batch []*effects.Settlement
	for _, e := range f.leasedEvents(n) {
		batch = append(batch, f.plan(e, f.executionAction(eventhook.Task, "")))
	}
	f.settle(f.db, batch...)
	var mu sync.Mutex
	claims := map[eventhook.ExecutionID]int{}
	worker := func(db *DB) func() {
		return func() {
			for list := f.claimWork(db, f.query()); len(list) > 0; list = f.claimWork(db, f.query()) {
				if len(list) > 10 {
					t.Errorf("claimed %d, want at most 10", len(list))
				}
				mu.Lock()
				for _, x := range list {
					claims[x.ID]++
				}
				mu.Unlock()
			}
		}
	}
	concurrently(worker(f.db), worker(f.other), worker(f.db), worker(f.other))
	worker(f.db)() // events that were locked for the other claims
	same(t, "claimed", len(claims), n)
	for id, times := range claims {
		if times != 1 {
			t.Errorf("event %s was claimed %d times", id, times)
		}
	}
}

func TestHeartbeatKeepsTheLease(t *testing.T) {
	f := setUp(t)
	x := f.runningExecution(eventhook.Task)
	f.clock.Advance(lease - time.Second)
	until, err := f.db.Heartbeat(t.Context(), x, time.Minute)
	f.must(err)
	same(t, "until", until, f.clock.Now().Add(time.Minute))
	f.clock.Advance(time.Minute - time.Second)
	same(t, "claimed under the longer lease", len(f.claimWork(f.other, f.query())), 0)
	f.clock.Advance(time.Second)
	// A late completion counts if no other worker has claimed the execution.
	f.complete(f.db, x, []byte(`{"ok":true}`))
	got := f.storedExecution(x.ID)
	same(t, "status", got.Status, eventhook.ExecutionCompleted)
	same(t, "output", string(got.Output), `{"ok":true}`)
	same(t, "completed at", got.CompletedAt.UTC(), f.clock.Now())
}

// A heartbeat without a time extends the lease by the length of the claim, on any instance,
// and never shortens it.
func TestAHeartbeatWithoutATimeDoesNotShortenTheLease(t *testing.T) {
	f := setUp(t)
	f.execution(eventhook.Task)
	q := f.query()
	q.Lease = 10 * time.Minute
	x := f.claimWork(f.db, q)[0]
	for _, c := range []struct {
		claim string
		after time.Duration
		given time.Duration
		want  time.Duration // from the heartbeat on
	}{
		{"no lease given: the length of the claim", 0, 0, 10 * time.Minute},
		{"no lease given, later in the lease", 9 * time.Minute, 0, 10 * time.Minute},
		{"a longer lease", time.Second, time.Hour, time.Hour},
		{"no lease given after a longer lease: its end stays", time.Minute, 0, 59 * time.Minute},
		{"a shorter lease", time.Second, time.Second, time.Second},
		{"no lease given after a shorter lease", time.Minute, 0, 10 * time.Minute},
	} {
		f.clock.Advance(c.after)
		until, err := f.other.Heartbeat(t.Context(), x, c.given)
		f.must(err)
		same(t, c.claim, until.Sub(f.clock.Now()), c.want)
		same(t, c.claim+": stored", f.storedExecution(x.ID).DueAt.Sub(f.clock.Now()), c.want)
	}
	f.clock.Advance(10 * time.Minute)
	x = f.claimWork(f.db, f.query())[0] // the next claim sets its own length
	until, err := f.db.Heartbeat(t.Context(), x, 0)
	f.must(err)
	same(t, "claimed again", until.Sub(f.clock.Now()), lease)
}

// settles are the operations that need a lease.
func (f *fixture) settles() map[string]func(x eventhook.Execution) error {
	return map[string]func(x eventhook.Execution) error{
		"heartbeat": func(x eventhook.Execution) error {
			_, err := f.db.Heartbeat(f.Context(), x, time.Hour)
			return err
		},
		"complete": func(x eventhook.Execution) error {
			x.Output = []byte(`1`)
			_, err := f.db.Complete(f.Context(), x)
			return err
		},
		"complete in a batch": func(x eventhook.Execution) error {
			errs, err := f.db.CompleteAll(f.Context(), x.TenantID, []eventhook.Execution{x})
			f.must(err)
			return errs[0]
		},
		"fail": func(x eventhook.Execution) error {
			_, err := f.db.Fail(f.Context(), x, "no", true, eventhook.ExecutionRetry)
			return err
		},
		"fail permanently": func(x eventhook.Execution) error {
			_, err := f.db.Fail(f.Context(), x, "no", false, eventhook.ExecutionRetry)
			return err
		},
		"suspend": func(x eventhook.Execution) error {
			return f.db.Suspend(f.Context(), x, eventhook.Suspension{State: []byte(`1`)})
		},
	}
}

func TestALostLeaseChangesNothing(t *testing.T) {
	f := setUp(t)
	late := f.runningExecution(eventhook.Workflow)
	f.clock.Advance(lease)
	now := f.claimWork(f.other, f.query())[0]
	same(t, "token of the next lease", now.Lease.Token, late.Lease.Token+1)
	before := f.storedExecution(late.ID)
	for name, settle := range f.settles() {
		if err := settle(late); !errors.Is(err, eventhook.ErrLeaseLost) {
			t.Errorf("%s: %v, want ErrLeaseLost", name, err)
		}
		same(t, "after "+name, f.storedExecution(late.ID), before)
	}
	same(t, "awaits", f.count("execution_await", "true"), 0)
	f.complete(f.other, now, nil)
	for name, settle := range f.settles() {
		if err := settle(now); !errors.Is(err, eventhook.ErrLeaseLost) {
			t.Errorf("%s after the end: %v, want ErrLeaseLost", name, err)
		}
	}
}

func TestWorkOfAnotherTenantDoesNotExist(t *testing.T) {
	f := setUp(t)
	x := f.runningExecution(eventhook.Workflow)
	before := f.storedExecution(x.ID)
	own, foreign := x.TenantID, f.secondTenant()
	x.TenantID = foreign
	for name, settle := range f.settles() {
		wantKind(t, name, settle(x), eventhook.KindNotFound)
	}
	_, err := f.db.Execution(t.Context(), foreign, x.ID)
	wantKind(t, "read", err, eventhook.KindNotFound)
	_, err = f.db.Cancel(t.Context(), foreign, x.ID)
	wantKind(t, "cancel", err, eventhook.KindNotFound)
	_, err = f.db.Retry(t.Context(), foreign, x.ID)
	wantKind(t, "retry", err, eventhook.KindNotFound)
	list, err := f.db.Executions(t.Context(), foreign, eventhook.ExecutionFilter{Limit: 10})
	f.must(err)
	same(t, "list", len(list), 0)
	same(t, "claimed", len(f.claimWork(f.db, eventhook.WorkQuery{Tenant: foreign, Queue: "ci", Max: 1, Lease: lease})), 0)
	same(t, "the execution is unchanged", f.storedExecution(x.ID), before)
	same(t, "tenant", before.TenantID, own)
}

func TestFailedExecutionsAreRetriedAndThenDead(t *testing.T) {
	f := setUp(t)
	x := f.runningExecution(eventhook.Task)
	for _, delay := range []time.Duration{10 * time.Second, 30 * time.Second} {
		next, err := f.db.Fail(t.Context(), x, "broke \x00", true, eventhook.ExecutionRetry)
		f.must(err)
		same(t, "next", next.Sub(f.clock.Now()), delay)
		got := f.storedExecution(x.ID)
		same(t, "status", got.Status, eventhook.ExecutionFailed)
		same(t, "error", got.Error, `broke \x00`)
		f.clock.Advance(delay - time.Second)
		same(t, "claimed too early", len(f.claimWork(f.db, f.query())), 0)
		f.clock.Advance(time.Second)
		attempt := x.Attempt
		x = f.claimWork(f.db, f.query())[0]
		same(t, "attempt", x.Attempt, attempt+1)
	}
	next, err := f.db.Fail(t.Context(), x, "broke", true, eventhook.ExecutionRetry)
	f.must(err)
	same(t, "next after the last", next, time.Time{})
	same(t, "status after the last", f.storedExecution(x.ID).Status, eventhook.ExecutionDead)

	x = f.runningExecution(eventhook.Task)
	_, err = f.db.Fail(t.Context(), x, "broke", false, eventhook.ExecutionRetry)
	f.must(err)
	same(t, "an execution that cannot be retried", f.storedExecution(x.ID).Status, eventhook.ExecutionDead)
}

func TestExecutionsWhoseWorkersDieBecomeDead(t *testing.T) {
	f := setUp(t)
	killer := f.execution(eventhook.Task)
	for attempt := range 3 {
		same(t, "attempt", f.claimWork(f.db, f.query())[0].Attempt, attempt+1)
		f.clock.Advance(lease)
	}
	healthy := f.execution(eventhook.Task)
	q := f.query()
	q.Max = 1
	claimed := f.claimWork(f.db, q) // dead executions before it do not prevent the claim
	same(t, "claimed", len(claimed), 1)
	same(t, "the execution that did not lose its lease", claimed[0].ID, healthy)
	got := f.storedExecution(killer)
	same(t, "status", got.Status, eventhook.ExecutionDead)
	same(t, "attempts", got.Attempt, 3)
	same(t, "error", got.Error, "the lease of the last attempt ran out")
	same(t, "due", got.DueAt, (*time.Time)(nil))

	wf := f.runningExecution(eventhook.Workflow, func(x *eventhook.Execution) { x.MaxAttempts = 1 })
	f.must(f.db.Suspend(t.Context(), wf, eventhook.Suspension{}))
	resumed := f.claimWork(f.db, f.query())
	same(t, "a workflow resumed in its last attempt", len(resumed), 1)
	f.complete(f.db, resumed[0], nil)
}

func TestCancel(t *testing.T) {
	f := setUp(t)
	x := f.runningExecution(eventhook.Task)
	got, err := f.db.Cancel(t.Context(), f.tenant, x.ID)
	f.must(err)
	same(t, "status", got.Status, eventhook.ExecutionCancelled)
	if _, err := f.db.Complete(t.Context(), x); !errors.Is(err, eventhook.ErrLeaseLost) {
		t.Errorf("worker of the execution: %v, want ErrLeaseLost", err)
	}
	f.clock.Advance(time.Hour)
	same(t, "claimed after that", len(f.claimWork(f.db, f.query())), 0)
	_, err = f.db.Cancel(t.Context(), f.tenant, x.ID)
	wantKind(t, "twice", err, eventhook.KindConflict)

	ids, _ := f.promises(0, 1)
	wf := f.runningExecution(eventhook.Workflow)
	f.must(f.db.Suspend(t.Context(), wf, eventhook.Suspension{Await: ids}))
	_, err = f.db.Cancel(t.Context(), f.tenant, wf.ID)
	f.must(err)
	_, err = f.db.SettlePromise(t.Context(), f.tenant, ids[0], resolved)
	f.must(err)
	same(t, "claimed after the promises", len(f.claimWork(f.db, f.query())), 0)
}

func TestRetryStartsAgain(t *testing.T) {
	f := setUp(t)
	x := f.runningExecution(eventhook.Task)
	_, err := f.db.Retry(t.Context(), f.tenant, x.ID)
	wantKind(t, "while it runs", err, eventhook.KindConflict)
	for _, end := range []func(x eventhook.Execution){
		func(x eventhook.Execution) {
			_, err := f.db.Fail(t.Context(), x, "no", true, eventhook.ExecutionRetry)
			f.must(err)
		},
		func(x eventhook.Execution) {
			_, err := f.db.Fail(t.Context(), x, "no", false, eventhook.ExecutionRetry)
			f.must(err)
		},
		func(x eventhook.Execution) {
			_, err := f.db.Cancel(t.Context(), f.tenant, x.ID)
			f.must(err)
		},
	} {
		end(x)
		wake := f.db.WorkWake(f.tenant, x.Queue)
		got, err := f.db.Retry(t.Context(), f.tenant, x.ID)
		f.must(err)
		same(t, "status", got.Status, eventhook.ExecutionPending)
		wantClosed(t, "workers that wait", wake)
		token := x.Lease.Token
		x = f.claimWork(f.db, f.query())[0]
		same(t, "attempt", x.Attempt, 1)
		same(t, "a higher token", x.Lease.Token > token, true)
	}
	f.complete(f.db, x, nil)
	_, err = f.db.Retry(t.Context(), f.tenant, x.ID)
	wantKind(t, "what is completed", err, eventhook.KindConflict)
}

func TestExecutionsAreListed(t *testing.T) {
	f := setUp(t)
	var ids []eventhook.ExecutionID
	for i := range 4 {
		typ := []eventhook.ExecutionType{eventhook.Task, eventhook.Workflow}[i%2]
		ids = append(ids, f.execution(typ, func(x *eventhook.Execution) { x.Kind, x.Queue = fmt.Sprint("k", i), fmt.Sprint("q", i/2) }))
		f.clock.Advance(time.Millisecond)
	}
	_, err := f.db.Cancel(t.Context(), f.tenant, ids[0])
	f.must(err)
	for _, c := range []struct {
		claim  string
		filter eventhook.ExecutionFilter
		want   []int
	}{
		{"newest first", eventhook.ExecutionFilter{}, []int{3, 2, 1, 0}},
		{"at most two", eventhook.ExecutionFilter{Limit: 2}, []int{3, 2}},
		{"executions before a cursor", eventhook.ExecutionFilter{Before: ids[2]}, []int{1, 0}},
		{"by type", eventhook.ExecutionFilter{Type: eventhook.Task}, []int{2, 0}},
		{"by status", eventhook.ExecutionFilter{Status: eventhook.ExecutionCancelled}, []int{0}},
		{"by kind", eventhook.ExecutionFilter{Kind: "k2"}, []int{2}},
		{"by queue", eventhook.ExecutionFilter{Queue: "q0"}, []int{1, 0}},
	} {
		if c.filter.Limit == 0 {
			c.filter.Limit = 10
		}
		list, err := f.db.Executions(t.Context(), f.tenant, c.filter)
		f.must(err)
		var got []int
		for _, x := range list {
			for i, id := range ids {
				if id == x.ID {
					got = append(got, i)
				}
			}
		}
		same(t, c.claim, got, c.want)
	}
}

func TestClaimWorkLimitsTheBytesOfInputs(t *testing.T) {
	f := setUp(t)
	for range 5 {
		e := f.leasedEvents(1)[0]
		e.BodySize = maxClaimBytes/2 + 1
		f.settle(f.db, f.plan(e, f.executionAction(eventhook.Task, "")))
	}
	var got []int
	for range 5 {
		got = append(got, len(f.claimWork(f.db, f.query())))
	}
	same(t, "executions of each claim", got, []int{2, 2, 1, 0, 0})
}

func TestKeysOfKindsAreIndependent(t *testing.T) {
	f := setUp(t)
	other := func(x *eventhook.Execution) { x.Kind = "another kind" }
	e := f.leasedEvents(1)[0]
	f.settle(f.db, f.plan(e, f.executionAction(eventhook.Task, "k"), f.executionAction(eventhook.Task, "k", other), f.executionAction(eventhook.Task, "k")))
	var got []eventhook.ActionStatus
	for _, a := range f.actions(e) {
		got = append(got, a.Status)
	}
	same(t, "actions", got, []eventhook.ActionStatus{eventhook.ActionSuccess, eventhook.ActionSuccess, eventhook.ActionSkipped})
}

func TestSuspendWithoutAStateKeepsTheState(t *testing.T) {
	f := setUp(t)
	p := f.promise("k")
	_, err := f.db.SettlePromise(t.Context(), f.tenant, p.ID, resolved)
	f.must(err)
	x := f.runningExecution(eventhook.Workflow)
	for _, given := range []string{`{"step":1}`, ""} {
		f.must(f.db.Suspend(t.Context(), x, eventhook.Suspension{State: []byte(given), Await: []eventhook.PromiseID{p.ID}}))
		x = f.claimWork(f.db, f.query())[0]
		same(t, "state", string(x.State), `{"step":1}`)
	}
}

func TestAClaimIncludesTheInput(t *testing.T) {
	f := setUp(t)
	body := func(e *eventhook.Event) { e.Body, e.Headers = []byte(`{"n":1}`), []byte("X-A: b\r\n") }
	e := f.event(f.withLease, body)
	f.must(f.db.Accept(t.Context(), arrivals(e)))
	f.settle(f.db, f.plan(e, f.executionAction(eventhook.Task, "")))
	same(t, "its event's payload", f.claimWork(f.db, f.query())[0].Payload, &eventhook.Payload{Headers: []byte("X-A: b\r\n"), Body: []byte(`{"n":1}`)})
	f.execution(eventhook.Task, func(x *eventhook.Execution) { x.Input = []byte(`2`) })
	own := f.claimWork(f.db, f.query())[0]
	same(t, "its own", string(own.Input), `2`)
	same(t, "payload", own.Payload, (*eventhook.Payload)(nil))
	f.execution(eventhook.Task)
	f.exec(`DELETE FROM eventhook.event_payload`)
	past := f.claimWork(f.db, f.query())
	same(t, "claimed after the retention of the body", len(past), 1)
	same(t, "payload after the retention", past[0].Payload, (*eventhook.Payload)(nil))
}
