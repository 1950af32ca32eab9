package pg

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

var resolved = effects.PromiseOutcome{Status: eventhook.PromiseResolved, Value: []byte(`{"paid":true}`)}

func TestCreatePromise(t *testing.T) {
	f := setUp(t)
	ends := noon.Add(time.Hour)
	first, made, err := f.db.CreatePromise(t.Context(), eventhook.Promise{TenantID: f.tenant, IdempotencyKey: "k", ExpiresAt: &ends})
	f.must(err)
	same(t, "first: created", made, true)
	same(t, "status", first.Status, eventhook.PromisePending)
	second, made, err := f.other.CreatePromise(t.Context(), eventhook.Promise{TenantID: f.tenant, IdempotencyKey: "k"})
	f.must(err)
	same(t, "second: created", made, false)
	same(t, "the second", second, first)
	_, made, err = f.db.CreatePromise(t.Context(), eventhook.Promise{TenantID: f.secondTenant(), IdempotencyKey: "k"})
	f.must(err)
	same(t, "created for another tenant", made, true)

	x := f.execution(eventhook.Workflow)
	p, _, err := f.db.CreatePromise(t.Context(), eventhook.Promise{TenantID: f.tenant, IdempotencyKey: "l", WorkflowExecutionID: x})
	f.must(err)
	same(t, "workflow", p.WorkflowExecutionID, x)
	_, _, err = f.db.CreatePromise(t.Context(), eventhook.Promise{TenantID: f.tenant, IdempotencyKey: "m", WorkflowExecutionID: eventhook.NewID[eventhook.Execution](noon)})
	wantKind(t, "of an unknown workflow", err, eventhook.KindInvalid)
	_, _, err = f.db.CreatePromise(t.Context(), eventhook.Promise{TenantID: f.tenant, IdempotencyKey: "m", WorkflowExecutionID: f.execution(eventhook.Task)})
	wantKind(t, "of a task", err, eventhook.KindInvalid)
	list, err := f.promiseList()
	f.must(err)
	same(t, "the tenant's promises", len(list), 2)
}

func TestConcurrentCreatePromiseCreatesOne(t *testing.T) {
	f := setUp(t)
	for round := range 20 {
		var made [2]bool
		var errs [2]error
		act := func(i int, db *DB) func() {
			return func() {
				_, made[i], errs[i] = db.CreatePromise(t.Context(), eventhook.Promise{TenantID: f.tenant, IdempotencyKey: fmt.Sprint(round)})
			}
		}
		concurrently(act(0, f.db), act(1, f.other))
		f.must(errs[0])
		f.must(errs[1])
		if made[0] == made[1] {
			t.Fatalf("created: %v, want true once", made)
		}
	}
}

func TestAnOutcomeBeforeItsPromiseIsHeld(t *testing.T) {
	f := setUp(t)
	e := f.leasedEvents(1)[0]
	f.settle(f.db, f.plan(e, resolveAction("k", `{"paid":true}`)))
	held := f.actions(e)[0].PromiseID
	_, err := f.db.Promise(t.Context(), f.tenant, held)
	wantKind(t, "a held outcome is no promise", err, eventhook.KindNotFound)
	_, err = f.db.PromiseByKey(t.Context(), f.tenant, "k")
	wantKind(t, "by its key neither", err, eventhook.KindNotFound)
	list, err := f.promiseList()
	f.must(err)
	same(t, "listed", len(list), 0)

	f.clock.Advance(time.Minute)
	p := f.promise("k")
	same(t, "id", p.ID, held)
	same(t, "status", p.Status, eventhook.PromiseResolved)
	same(t, "value", string(p.Value), `{"paid":true}`)
	same(t, "created at", p.CreatedAt.UTC(), f.clock.Now())
	same(t, "settled at", p.SettledAt.UTC(), noon)
	_, made, err := f.db.CreatePromise(t.Context(), eventhook.Promise{TenantID: f.tenant, IdempotencyKey: "k"})
	f.must(err)
	same(t, "created again", made, false)
}

func TestAnOutcomeWithoutItsPromiseFails(t *testing.T) {
	f := setUp(t)
	rejects := promiseAction(effects.PromiseOutcome{Key: "k", Status: eventhook.PromiseRejected, Error: "card \x00 \xff refused"})
	e := f.leasedEvents(1)[0]
	f.settle(f.db, f.plan(e, rejects))
	same(t, "action", f.actions(e)[0].Status, eventhook.ActionFailed)
	got := f.storedEvent(e)
	same(t, "event", got.Status, eventhook.EventFailed)
	same(t, "retry", got.NextRetryAt.UTC(), noon.Add(10*time.Second))

	p := f.promise("k")
	f.clock.Advance(10 * time.Second)
	e = f.claimEvents(f.db, 1)[0]
	f.settle(f.db, f.plan(e, rejects))
	same(t, "event then", f.storedEvent(e).Status, eventhook.EventDelivered)
	p, err := f.db.Promise(t.Context(), f.tenant, p.ID)
	f.must(err)
	same(t, "promise", p.Status, eventhook.PromiseRejected)
	same(t, "error", p.Error, `card \x00 \xff refused`)
}

func TestTheFirstOutcomeWins(t *testing.T) {
	f := setUp(t)
	p := f.promise("k")
	events := f.leasedEvents(3)
	f.settle(f.db, f.plan(events[0], resolveAction("k", `1`)), f.plan(events[1], resolveAction("k", `2`), resolveAction("k", `3`)))
	f.settle(f.other, f.plan(events[2], resolveAction("k", `4`)))
	for i, want := range []eventhook.ActionStatus{eventhook.ActionSuccess, eventhook.ActionSkipped, eventhook.ActionSkipped} {
		for _, a := range f.actions(events[i]) {
			same(t, fmt.Sprintf("action of event %d", i), a.Status, want)
			same(t, "its promise", a.PromiseID, p.ID)
		}
	}
	_, err := f.db.SettlePromise(t.Context(), f.tenant, p.ID, resolved)
	wantKind(t, "settled by hand after that", err, eventhook.KindConflict)
	got, err := f.db.PromiseByKey(t.Context(), f.tenant, "k")
	f.must(err)
	same(t, "value", string(got.Value), `1`)

	// An outcome that fails without a promise does not use the one that is held.
	strict := resolveAction("l", `1`)
	strict.Effect.Promise.Hold = false
	events = f.leasedEvents(2)
	f.settle(f.db, f.plan(events[0], strict), f.plan(events[1], resolveAction("l", `2`)))
	same(t, "an outcome that must not be held", f.actions(events[0])[0].Status, eventhook.ActionFailed)
	same(t, "an outcome that may be held", f.actions(events[1])[0].Status, eventhook.ActionSuccess)
}

func TestAPromiseCreatedWithItsOutcomeIsSettled(t *testing.T) {
	f := setUp(t)
	const rounds = 60
	for round := range rounds {
		key := fmt.Sprint(round)
		hold := round%3 > 0
		a := resolveAction(key, `1`)
		a.Effect.Promise.Hold = hold
		s := f.plan(f.leasedEvents(1)[0], a)
		concurrently(
			func() { f.promise(key) },
			func() { f.settle(f.other, s) })
		got, err := f.db.PromiseByKey(t.Context(), f.tenant, key)
		f.must(err)
		action := f.actions(s.Event)[0].Status
		if missed := got.Status == eventhook.PromisePending; missed && (hold || action != eventhook.ActionFailed) || !missed && action != eventhook.ActionSuccess {
			t.Fatalf("hold %v: the promise is %s and its action %s", hold, got.Status, action)
		}
	}
}

// This forces the race: the promise is created after the outcome looked for it and before
// the outcome is held.
func TestAPromiseCreatedBetweenTwoStatementsIsSettled(t *testing.T) {
	f := setUp(t)
	for _, hold := range []bool{true, false} {
		key := fmt.Sprint(hold)
		f.exec(fmt.Sprintf(`CREATE FUNCTION between_%[1]s() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO eventhook.promise (id, tenant_id, idempotency_key, status, created_at)
			SELECT gen_random_uuid(), '%[2]s', '%[1]s', 'pending', '2026-03-10' ON CONFLICT DO NOTHING;
			RETURN NULL; END $$`, key, f.tenant))
		// The trigger runs after the statement that found no pending promise.
		f.exec(fmt.Sprintf(`CREATE TRIGGER t AFTER UPDATE ON eventhook.promise FOR EACH STATEMENT EXECUTE FUNCTION between_%s()`, key))
		a := resolveAction(key, `1`)
		a.Effect.Promise.Hold = hold
		e := f.leasedEvents(1)[0]
		f.settle(f.db, f.plan(e, a))
		f.exec(`DROP TRIGGER t ON eventhook.promise`)
		got, err := f.db.PromiseByKey(t.Context(), f.tenant, key)
		f.must(err)
		same(t, "promise", got.Status, eventhook.PromiseResolved)
		same(t, "action", f.actions(e)[0].Status, eventhook.ActionSuccess)
	}
}

func TestSettlePromise(t *testing.T) {
	f := setUp(t)
	p := f.promise("k")
	_, err := f.db.SettlePromise(t.Context(), f.secondTenant(), p.ID, resolved)
	wantKind(t, "another tenant's", err, eventhook.KindNotFound)
	wake := f.db.PromiseWake(f.tenant, p.ID)
	got, err := f.db.SettlePromise(t.Context(), f.tenant, p.ID, resolved)
	f.must(err)
	same(t, "status", got.Status, eventhook.PromiseResolved)
	same(t, "value", string(got.Value), `{"paid":true}`)
	same(t, "settled at", got.SettledAt.UTC(), noon)
	wantClosed(t, "who waits for promises", wake)
	_, err = f.db.SettlePromise(t.Context(), f.tenant, p.ID, resolved)
	wantKind(t, "twice", err, eventhook.KindConflict)
}

func TestAValueWithInvalidUTF8IsStoredAsJSON(t *testing.T) {
	f := setUp(t)
	for i, c := range []struct{ claim, value, want string }{
		{"spaces and order stay", `{"b": 1,  "a":2}`, `{"b": 1,  "a":2}`},
		{"an escaped NUL stays", `"a\u0000"`, `"a\u0000"`},
		{"bytes that are not UTF-8 are replaced", "\"a\xff\"", "\"a\uFFFD\""},
	} {
		p := f.promise(fmt.Sprint(i))
		got, err := f.db.SettlePromise(t.Context(), f.tenant, p.ID, effects.PromiseOutcome{Status: eventhook.PromiseResolved, Value: []byte(c.value)})
		f.must(err)
		same(t, c.claim, string(got.Value), c.want)
	}
}

func TestPromisesExpire(t *testing.T) {
	f := setUp(t)
	ends := noon.Add(time.Hour)
	p, _, err := f.db.CreatePromise(t.Context(), eventhook.Promise{TenantID: f.tenant, IdempotencyKey: "k", ExpiresAt: &ends})
	f.must(err)
	f.promise("without an end")
	x := f.runningExecution(eventhook.Workflow)
	f.must(f.db.Suspend(t.Context(), x, eventhook.Suspension{Await: []eventhook.PromiseID{p.ID}}))
	expire := func() int {
		n, err := f.db.ExpirePromises(t.Context())
		f.must(err)
		return n
	}
	f.clock.Advance(time.Hour - time.Second)
	same(t, "expired too early", expire(), 0)
	f.clock.Advance(time.Second)
	same(t, "expired in time", expire(), 1)
	same(t, "expired again", expire(), 0)
	resumed := f.claimWork(f.db, f.query())
	same(t, "resumed", len(resumed), 1)
	same(t, "status of the awaited promise", resumed[0].Promises[0].Status, eventhook.PromiseExpired)
	_, err = f.db.SettlePromise(t.Context(), f.tenant, p.ID, resolved)
	wantKind(t, "settled after that", err, eventhook.KindConflict)
}

func TestConcurrentExpiryAndOutcomeSettleOnce(t *testing.T) {
	f := setUp(t)
	for round := range 20 {
		ends := f.clock.Now()
		p, _, err := f.db.CreatePromise(t.Context(), eventhook.Promise{TenantID: f.tenant, IdempotencyKey: fmt.Sprint(round), ExpiresAt: &ends})
		f.must(err)
		x := f.runningExecution(eventhook.Workflow)
		f.must(f.db.Suspend(t.Context(), x, eventhook.Suspension{Await: []eventhook.PromiseID{p.ID}}))
		var expired int
		var expireErr, settleErr error
		concurrently(
			func() { expired, expireErr = f.db.ExpirePromises(t.Context()) },
			func() { _, settleErr = f.other.SettlePromise(t.Context(), f.tenant, p.ID, resolved) })
		f.must(expireErr)
		if (settleErr == nil) == (expired == 1) {
			t.Fatalf("expired %d and settled with %v, want one of them", expired, settleErr)
		}
		same(t, "resumed", len(f.claimWork(f.db, f.query())), 1)
	}
}

// Locks are not held for a round trip per promise: a batch of events may settle a thousand.
func TestOutcomesAreSettledInFewRoundTrips(t *testing.T) {
	const outcomes, most = 50, 10
	f := setUp(t)
	for _, c := range []struct {
		claim string
		make  func(key string)
	}{
		{"promises that are awaited", func(key string) { f.promise(key) }},
		{"promises that come later", func(string) {}},
		{"promises that are settled", func(key string) {
			_, err := f.db.SettlePromise(t.Context(), f.tenant, f.promise(key).ID, resolved)
			f.must(err)
		}},
	} {
		var batch []*effects.Settlement
		for i, e := range f.leasedEvents(outcomes) {
			key := fmt.Sprint(c.claim, i)
			c.make(key)
			batch = append(batch, f.plan(e, resolveAction(key, `1`)))
		}
		trips := f.countTrips()
		before := trips.Load()
		f.settle(f.db, batch...)
		if n := trips.Load() - before; n > most {
			t.Errorf("%s: %d round trips for %d outcomes, want at most %d", c.claim, n, outcomes, most)
		}
	}
	same(t, "held", f.count("promise", "is_held"), outcomes)
	same(t, "settled", f.count("promise", "NOT is_held AND status = 'resolved'"), 2*outcomes)
}

// TestMixedOutcomesOfABatch settles a batch with every possible result of an outcome, with
// empty values and errors.
func TestMixedOutcomesOfABatch(t *testing.T) {
	f := setUp(t)
	for _, key := range []string{"pending", "settled", "rejected"} {
		f.promise(key)
	}
	f.settle(f.db, f.plan(f.leasedEvents(1)[0], resolveAction("settled", `0`)))
	strict := func(key string) effects.PlannedAction {
		return promiseAction(effects.PromiseOutcome{Key: key, Status: eventhook.PromiseResolved, Value: []byte(`"strict"`)})
	}
	rejects := promiseAction(effects.PromiseOutcome{Key: "rejected", Status: eventhook.PromiseRejected, Error: "no \x00 card", Hold: true})
	e := f.leasedEvents(1)[0]
	f.settle(f.db, f.plan(e, strict("missing"), strict("pending"), resolveAction("settled", `1`), resolveAction("later", `2`), strict("later"), rejects,
		resolveAction("pending", `3`), strict("missing")))
	var got []eventhook.ActionStatus
	for _, a := range f.actions(e) {
		got = append(got, a.Status)
	}
	done, skipped, failed := eventhook.ActionSuccess, eventhook.ActionSkipped, eventhook.ActionFailed
	same(t, "actions", got, []eventhook.ActionStatus{failed, done, skipped, done, skipped, done, skipped, failed})
	for key, want := range map[string]string{"pending": `"strict"`, "settled": `0`, "rejected": ``} {
		p, err := f.db.PromiseByKey(t.Context(), f.tenant, key)
		f.must(err)
		same(t, "value of "+key, string(p.Value), want)
	}
	same(t, "value of a promise created after its outcome", string(f.promise("later").Value), `2`)
	p, err := f.db.PromiseByKey(t.Context(), f.tenant, "rejected")
	f.must(err)
	same(t, "error", p.Error, `no \x00 card`)
}

// promiseList lists the newest promises of the tenant.
func (f *fixture) promiseList() ([]eventhook.Promise, error) {
	f.Helper()
	found, err := f.db.Promises(f.Context(), f.tenant, eventhook.PromiseFilter{Limit: 10})
	return found.Promises, err
}
