package pg

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// manyKeys stores n keys, four per page; every second key has expired.
func (f *fixture) manyKeys(n int) {
	f.Helper()
	f.exec(`INSERT INTO eventhook.idempotency_key (tenant_id, scope, key, made, expires_at)
		SELECT $1, 'task', repeat(md5(i::text), 60), gen_random_uuid(), $2::timestamptz + CASE WHEN i % 2 = 0 THEN interval '0' ELSE interval '1 s' END
		FROM generate_series(1, $3) i`, [16]byte(f.tenant), noon, n)
}

func TestSweepWalksTheKeys(t *testing.T) {
	f := setUp(t)
	const n = 9000
	f.manyKeys(n)
	pages := queryValue[int](f, `SELECT pg_relation_size('eventhook.idempotency_key') / 8192`)
	calls := (pages + sweepPages - 1) / sweepPages
	if calls < 3 {
		t.Fatalf("%d pages: too few to walk", pages)
	}
	sweep := func() int {
		removed, err := f.db.SweepIdempotencyKeys(t.Context())
		f.must(err)
		return removed
	}
	removed := 0
	for call := range calls {
		got := sweep()
		if got == 0 || got > 2*sweepPages+4 {
			t.Errorf("call %d removed %d, want a part", call, got)
		}
		removed += got
	}
	same(t, "removed in one round", removed, n/2)
	same(t, "keys left", f.count("idempotency_key", "true"), n/2)
	f.clock.Advance(time.Second)
	for removed < n {
		got := sweep()
		if got == 0 {
			t.Fatalf("%d of %d removed, and the next round removes nothing", removed, n)
		}
		removed += got
	}
	same(t, "keys left at the end", f.count("idempotency_key", "true"), 0)
	same(t, "deleted from an empty table", sweep(), 0)
}

func TestSweepSkipsLockedRows(t *testing.T) {
	f := setUp(t)
	f.manyKeys(10)
	tx, err := f.other.work.Begin(t.Context())
	f.must(err)
	_, err = tx.Exec(t.Context(), `UPDATE eventhook.idempotency_key SET made = made WHERE key = repeat(md5('2'), 60)`)
	f.must(err)
	removed, err := f.db.SweepIdempotencyKeys(t.Context())
	f.must(err)
	f.must(tx.Rollback(t.Context()))
	same(t, "removed", removed, 4)
	removed, err = f.db.SweepIdempotencyKeys(t.Context())
	f.must(err)
	same(t, "deleted after the lock was released", removed, 1)
}

func TestExpiredKeysCanBeClaimedDuringASweep(t *testing.T) {
	f := setUp(t)
	for range 20 {
		var batch, again []*eventhook.Event
		for i := range 50 {
			batch = append(batch, f.event(withKey(fmt.Sprint(i))))
			again = append(again, f.event(withKey(fmt.Sprint(i))))
		}
		var sweepErr, acceptErr error
		concurrently(
			func() { _, sweepErr = f.db.SweepIdempotencyKeys(t.Context()) },
			func() { acceptErr = f.other.Accept(t.Context(), arrivals(batch...)) })
		f.must(sweepErr)
		f.must(acceptErr)
		f.must(f.db.Accept(t.Context(), arrivals(again...)))
		for i := range batch {
			same(t, "a key past its time", batch[i].Status, eventhook.EventPending)
			wantDuplicate(t, "after that", again[i], batch[i])
		}
		f.clock.Advance(keyTTL)
	}
}

func TestSweepExecutions(t *testing.T) {
	f := setUp(t)
	ids, _ := f.promises(0, 1)
	ended := f.runningExecution(eventhook.Workflow)
	f.must(f.db.Suspend(t.Context(), ended, eventhook.Suspension{Await: ids, Timeout: time.Second}))
	f.clock.Advance(time.Second)
	ended = f.claimWork(f.db, f.query())[0]
	f.complete(f.db, ended, nil)
	cancelled := f.execution(eventhook.Task)
	_, err := f.db.Cancel(t.Context(), f.tenant, cancelled)
	f.must(err)
	waiting := f.runningExecution(eventhook.Workflow)
	f.must(f.db.Suspend(t.Context(), waiting, eventhook.Suspension{Await: ids}))
	pending := f.execution(eventhook.Task)

	sweep := func(keep time.Duration) int {
		n, err := f.db.SweepExecutions(t.Context(), keep)
		f.must(err)
		return n
	}
	f.clock.Advance(day - time.Second)
	same(t, "deleted before the end of keep", sweep(day), 0)
	same(t, "deleted while idempotency keys may refer to them", sweep(time.Hour), 0)
	f.clock.Advance(time.Second)
	same(t, "deleted with a keep of 0", sweep(0), 0)
	same(t, "deleted after the end of keep", sweep(day), 2)
	for _, id := range []eventhook.ExecutionID{ended.ID, cancelled} {
		_, err := f.db.Execution(t.Context(), f.tenant, id)
		wantKind(t, "an ended execution", err, eventhook.KindNotFound)
	}
	same(t, "a waiting execution", f.storedExecution(waiting.ID).Status, eventhook.ExecutionSuspended)
	same(t, "a due execution", f.storedExecution(pending).Status, eventhook.ExecutionPending)
	same(t, "awaits", f.count("execution_await", "true"), 1)
}

func TestSweepPromises(t *testing.T) {
	f := setUp(t)
	const keep = 90 * day
	settled, pending := f.promise("settled"), f.promise("pending")
	_, err := f.db.SettlePromise(t.Context(), f.tenant, settled.ID, resolved)
	f.must(err)
	f.settle(f.db, f.plan(f.leasedEvents(1)[0], resolveAction("held", "1")))
	for _, c := range []struct {
		claim string
		after time.Duration
		keep  time.Duration
		want  int
	}{
		{"new promises stay", keep - time.Second, keep, 0},
		{"a keep of 0 deletes none", time.Hour, 0, 0},
		{"settled ones, also those that were never created", 0, keep, 2},
		{"once", 0, keep, 0},
	} {
		f.clock.Advance(c.after)
		n, err := f.db.SweepPromises(t.Context(), c.keep)
		f.must(err)
		same(t, c.claim, n, c.want)
	}
	_, err = f.db.Promise(t.Context(), f.tenant, pending.ID)
	f.must(err)
}
