package pg

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventhook/eventhook"
)

// blockExecutionUpdates makes every change of an execution wait until the gate is opened.
func (f *fixture) blockExecutionUpdates() (open func()) {
	f.Helper()
	f.exec(`CREATE FUNCTION wait_for_gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NEW; END $$`)
	f.exec(`CREATE TRIGGER wait_for_gate BEFORE UPDATE ON eventhook.execution FOR EACH ROW EXECUTE FUNCTION wait_for_gate()`)
	gate, err := f.other.work.Acquire(f.Context())
	f.must(err)
	f.on(gate, `SELECT pg_advisory_lock(1)`)
	return func() {
		f.on(gate, `SELECT pg_advisory_unlock(1)`)
		gate.Release()
	}
}

func (f *fixture) on(conn *pgxpool.Conn, sql string) {
	f.Helper()
	_, err := conn.Exec(f.Context(), sql)
	f.must(err)
}

// TestExecutionsOfACancelledClaimAreReleased cancels a claim while the database executes it.
func TestExecutionsOfACancelledClaimAreReleased(t *testing.T) {
	for claim, owed := range map[string]func(*fixture) eventhook.ExecutionID{
		"new": func(f *fixture) eventhook.ExecutionID { return f.execution(eventhook.Task) },
		"failed": func(f *fixture) eventhook.ExecutionID {
			x := f.runningExecution(eventhook.Task)
			_, err := f.db.Fail(f.Context(), x, "no", true, eventhook.RetryPolicy{InitialDelayMS: 1000})
			f.must(err)
			return x.ID
		},
		"whose worker died": func(f *fixture) eventhook.ExecutionID { return f.runningExecution(eventhook.Task).ID },
		"a resumed workflow": func(f *fixture) eventhook.ExecutionID {
			x := f.runningExecution(eventhook.Workflow)
			f.must(f.db.Suspend(f.Context(), x, eventhook.Suspension{State: []byte(`1`), Await: []eventhook.PromiseID{f.promise("k").ID}, Timeout: time.Second}))
			return x.ID
		},
	} {
		t.Run(claim, func(t *testing.T) {
			f := setUp(t)
			id := owed(f)
			f.clock.Advance(time.Minute)
			before := f.storedExecution(id)
			open := f.blockExecutionUpdates()
			ctx, leave := context.WithCancel(t.Context())
			type answer struct {
				n   int
				err error
			}
			answered := make(chan answer, 1)
			go func() {
				list, err := f.db.ClaimWork(ctx, f.query())
				answered <- answer{len(list), err}
			}()
			f.waitForBlocked(1)
			wake := f.db.WorkWake(f.tenant, before.Queue)
			leave()
			open()
			if a := next(t, answered); a.n != 0 || !errors.Is(a.err, context.Canceled) {
				t.Errorf("claimed %d, %v; want none and context.Canceled", a.n, a.err)
			}
			select {
			case <-wake:
			default:
				t.Error("no waiter was woken before the result")
			}
			after := f.storedExecution(id)
			same(t, "token", after.Lease.Token, before.Lease.Token+1)
			after.Lease.Token = before.Lease.Token
			same(t, "the execution", after, before)
			same(t, "claimed by the next", len(f.claimWork(f.db, f.query())), 1)
		})
	}
}
