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

// promises creates n promises whose keys are in reverse order of their ids.
func (f *fixture) promises(round, n int) (ids []eventhook.PromiseID, keys []string) {
	f.Helper()
	for i := range n {
		key := fmt.Sprintf("%d/%c", round, 'z'-i)
		ids, keys = append(ids, f.promise(key).ID), append(keys, key)
		f.clock.Advance(time.Millisecond)
	}
	return ids, keys
}

func TestASuspendedWorkflowResumesWithItsPromises(t *testing.T) {
	f := setUp(t)
	for round, state := range []string{`{"step":2}`, ""} {
		ids, _ := f.promises(round, 2)
		x := f.runningExecution(eventhook.Workflow)
		f.must(f.db.Suspend(t.Context(), x, eventhook.Suspension{State: []byte(state), Await: ids}))
		same(t, "status", f.storedExecution(x.ID).Status, eventhook.ExecutionSuspended)
		same(t, "claimed while suspended", len(f.claimWork(f.db, f.query())), 0)
		_, err := f.db.SettlePromise(t.Context(), f.tenant, ids[0], resolved)
		f.must(err)
		same(t, "claimed while one promise is pending", len(f.claimWork(f.db, f.query())), 0)
		wake := f.db.WorkWake(f.tenant, x.Queue)
		_, err = f.db.SettlePromise(t.Context(), f.tenant, ids[1], resolved)
		f.must(err)
		wantClosed(t, "workers that wait", wake)

		resumed := f.claimWork(f.db, f.query())
		same(t, "claimed", len(resumed), 1)
		same(t, "state", string(resumed[0].State), state)
		same(t, "attempt", resumed[0].Attempt, x.Attempt)
		same(t, "token", resumed[0].Lease.Token, x.Lease.Token+1)
		same(t, "promises", len(resumed[0].Promises), 2)
		for _, p := range resumed[0].Promises {
			same(t, "value", string(p.Value), `{"paid":true}`)
		}
		// A worker that follows a dead one gets the same promises.
		f.clock.Advance(lease)
		again := f.claimWork(f.db, f.query())
		same(t, "attempt after an expired lease", again[0].Attempt, x.Attempt+1)
		same(t, "promises after an expired lease", len(again[0].Promises), 2)
		f.complete(f.db, again[0], nil)
	}
}

func TestSuspendReplacesTheAwaitedPromises(t *testing.T) {
	f := setUp(t)
	ids, _ := f.promises(0, 3)
	x := f.runningExecution(eventhook.Workflow)
	for _, await := range [][]eventhook.PromiseID{ids[:2], ids[1:]} {
		for _, id := range await {
			if p, err := f.db.Promise(t.Context(), f.tenant, id); err == nil && p.Status == eventhook.PromisePending {
				_, err = f.db.SettlePromise(t.Context(), f.tenant, id, resolved)
				f.must(err)
			}
		}
		f.must(f.db.Suspend(t.Context(), x, eventhook.Suspension{Await: await}))
		x = f.claimWork(f.db, f.query())[0]
		var got []eventhook.PromiseID
		for _, p := range x.Promises {
			got = append(got, p.ID)
		}
		same(t, "promises", got, await)
	}
}

func TestSuspendOnSettledPromisesIsDueAtOnce(t *testing.T) {
	f := setUp(t)
	ids, _ := f.promises(0, 2)
	for _, id := range ids {
		_, err := f.db.SettlePromise(t.Context(), f.tenant, id, resolved)
		f.must(err)
	}
	x := f.runningExecution(eventhook.Workflow)
	f.must(f.db.Suspend(t.Context(), x, eventhook.Suspension{Await: ids}))
	same(t, "claimed", len(f.claimWork(f.db, f.query())), 1)
}

func TestSuspendHasATimeout(t *testing.T) {
	f := setUp(t)
	ids, _ := f.promises(0, 1)
	x := f.runningExecution(eventhook.Workflow)
	f.must(f.db.Suspend(t.Context(), x, eventhook.Suspension{Await: ids, Timeout: time.Hour}))
	f.clock.Advance(time.Hour - time.Second)
	same(t, "claimed too early", len(f.claimWork(f.db, f.query())), 0)
	f.clock.Advance(time.Second)
	resumed := f.claimWork(f.db, f.query())
	same(t, "claimed in time", len(resumed), 1)
	same(t, "status of the awaited promise", resumed[0].Promises[0].Status, eventhook.PromisePending)
	// A promise that the workflow no longer awaits does not end its lease.
	_, err := f.db.SettlePromise(t.Context(), f.tenant, ids[0], resolved)
	f.must(err)
	same(t, "claimed while it runs", len(f.claimWork(f.db, f.query())), 0)
	f.complete(f.db, resumed[0], nil)
}

func TestSuspendRefuses(t *testing.T) {
	f := setUp(t)
	ids, _ := f.promises(0, 1)
	foreign, _, err := f.db.CreatePromise(t.Context(), eventhook.Promise{TenantID: f.secondTenant(), IdempotencyKey: "k"})
	f.must(err)
	e := f.leasedEvents(1)[0]
	f.settle(f.db, f.plan(e, resolveAction("held", `1`)))
	x := f.runningExecution(eventhook.Workflow)
	for _, c := range []struct {
		claim string
		await []eventhook.PromiseID
	}{
		{"an unknown promise", []eventhook.PromiseID{ids[0], eventhook.NewID[eventhook.Promise](noon)}},
		{"a promise of another tenant", []eventhook.PromiseID{foreign.ID}},
		{"an outcome that is only held", []eventhook.PromiseID{f.actions(e)[0].PromiseID}},
		{"a promise listed twice", []eventhook.PromiseID{ids[0], ids[0]}},
	} {
		wantKind(t, c.claim, f.db.Suspend(t.Context(), x, eventhook.Suspension{Await: c.await}), eventhook.KindInvalid)
		same(t, c.claim+": status", f.storedExecution(x.ID).Status, eventhook.ExecutionRunning)
	}
	same(t, "awaits", f.count("execution_await", "true"), 0)
	task := f.runningExecution(eventhook.Task)
	wantKind(t, "a task", f.db.Suspend(t.Context(), task, eventhook.Suspension{Await: ids}), eventhook.KindConflict)
}

// The transaction that settles the last promise resumes the workflow, in any order.
func TestConcurrentSettlesResumeTheWorkflow(t *testing.T) {
	f := setUp(t)
	settlers := map[string]func(*DB, eventhook.PromiseID, string){
		"by hand": func(db *DB, id eventhook.PromiseID, _ string) {
			_, err := db.SettlePromise(t.Context(), f.tenant, id, resolved)
			f.must(err)
		},
		"by event": func(db *DB, _ eventhook.PromiseID, key string) {
			f.settle(db, f.plan(f.leasedEvents(1)[0], resolveAction(key, `1`)))
		},
	}
	round := 0
	for name, settle := range settlers {
		for range 25 {
			for _, n := range []int{1, 2} {
				round++
				ids, keys := f.promises(round, n)
				x := f.runningExecution(eventhook.Workflow)
				acts := []func(){func() { settle(f.other, ids[0], keys[0]) }}
				early := round%2 == 0
				if early {
					f.must(f.db.Suspend(t.Context(), x, eventhook.Suspension{Await: ids}))
				} else {
					acts = append(acts, func() { f.must(f.db.Suspend(t.Context(), x, eventhook.Suspension{Await: ids})) })
				}
				if n == 2 {
					acts = append(acts, func() { settle(f.db, ids[1], keys[1]) })
				}
				concurrently(acts...)
				resumed := f.claimWork(f.db, f.query())
				if len(resumed) != 1 {
					t.Fatalf("%s, %d promises, suspended before %v: not woken", name, n, early)
				}
				f.complete(f.db, resumed[0], nil)
			}
		}
	}
}

// One batch settles all promises that a workflow is about to await, in the order of their
// keys, which is not that of their ids.
func TestSuspendAndSettleDoNotDeadlock(t *testing.T) {
	f := setUp(t)
	var log bytes.Buffer
	settler := f.open(func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	for round := range 30 {
		ids, keys := f.promises(round, 20)
		x := f.runningExecution(eventhook.Workflow)
		var actions []effects.PlannedAction
		for _, key := range keys {
			actions = append(actions, resolveAction(key, `1`))
		}
		s := f.plan(f.leasedEvents(1)[0], actions...)
		concurrently(
			func() { f.must(f.db.Suspend(t.Context(), x, eventhook.Suspension{Await: ids})) },
			func() { f.settle(settler, s) })
		resumed := f.claimWork(f.db, f.query())
		if len(resumed) != 1 {
			t.Fatal("the waiter was not woken")
		}
		f.complete(f.db, resumed[0], nil)
	}
	same(t, "log", log.String(), "")
}
