package pg

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/eventhook/eventhook"
)

// TestOneTenantsClaimsLeaveConnectionsToOthers blocks all claims of acme in the database, more
// than there are connections.
func TestOneTenantsClaimsLeaveConnectionsToOthers(t *testing.T) {
	f := setUp(t)
	const claimers = 1000
	for range claimSlotShare + 1 {
		f.execution(eventhook.Task)
	}
	umbrella := f.secondTenant()
	f.exec(`INSERT INTO eventhook.execution (id, tenant_id, due_at, created_at, max_attempts, type, status, queue, kind)
		VALUES (gen_random_uuid(), $1, $2, $2, 3, 'task', 'pending', 'ci', 'build')`, [16]byte(umbrella), f.clock.Now())
	f.exec(`CREATE FUNCTION wait_for_gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NEW; END $$`)
	f.exec(`CREATE TRIGGER wait_for_gate BEFORE UPDATE ON eventhook.execution FOR EACH ROW WHEN (NEW.tenant_id <> '` + umbrella.String() + `')
		EXECUTE FUNCTION wait_for_gate()`)
	gate, err := f.other.work.Acquire(t.Context())
	f.must(err)
	defer gate.Release()
	_, err = gate.Exec(t.Context(), `SELECT pg_advisory_lock(1)`)
	f.must(err)

	var claiming sync.WaitGroup
	claimed := make(chan int, claimers)
	for range claimers {
		claiming.Go(func() {
			q := f.query()
			q.Max = 1
			claimed <- len(f.claimWork(f.db, q))
		})
	}
	share := f.db.work.Config().MaxConns / claimSlotShare
	f.waitForBlocked(int(share))
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	list, err := f.db.ClaimWork(ctx, eventhook.WorkQuery{Tenant: umbrella, Queue: "ci", Max: 1, Lease: lease})
	f.must(err)
	same(t, "claimed for another tenant meanwhile", len(list), 1)
	same(t, "blocked claims of acme", f.sessionCounter(blockedSession)(), int(share))

	_, err = gate.Exec(t.Context(), `SELECT pg_advisory_unlock(1)`)
	f.must(err)
	claiming.Wait()
	close(claimed)
	total := 0
	for n := range claimed {
		total += n
	}
	same(t, "claimed for acme at the end", total, claimSlotShare+1)
}

func TestACancelledClaimEnds(t *testing.T) {
	f := setUp(t)
	queue := f.db.claims.Open(f.tenant)
	defer f.db.claims.Close(f.tenant)
	<-queue.Slot() // the fixture's tenant has one slot
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := f.db.ClaimWork(ctx, f.query())
		ended <- err
	}()
	for f.db.claims.Callers(f.tenant) < 2 {
		runtime.Gosched()
	}
	leave()
	if err := next(t, ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	queue.Release()
	same(t, "claimed after that", len(f.claimWork(f.db, f.query())), 0)
}
