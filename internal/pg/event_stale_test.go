package pg

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// changes are changes with whether they make the plans of acme's events stale.
var changes = []struct {
	claim   string
	sql     string
	isStale bool
}{
	{"nothing changes", `SELECT`, false},
	{"a route is created", `INSERT INTO eventhook.route SELECT (jsonb_populate_record(r, jsonb_build_object('id', gen_random_uuid(), 'name', 'new'))).* FROM eventhook.route r`, true},
	{"a route is changed", `UPDATE eventhook.route SET priority = priority + 1`, true},
	{"a route is deleted", `DELETE FROM eventhook.route`, true},
	{"a source is changed", `UPDATE eventhook.source SET settings = settings || '{"retry":{}}' WHERE slug = 'crm'`, true},
	{"a source is deleted", `DELETE FROM eventhook.source WHERE slug = 'shop'`, true},
	{"a subscription is created", `INSERT INTO eventhook.subscription (id, tenant_id, name, event_types, settings, secrets, created_at, updated_at)
		SELECT gen_random_uuid(), id, 'new', '{*}', '{}', '-', now(), now() FROM eventhook.tenant WHERE slug = 'acme'`, true},
	{"a subscription is paused", `UPDATE eventhook.subscription SET status = 'paused'`, true},
	{"a subscription is deleted", `DELETE FROM eventhook.subscription`, true},
	{"the tenant is suspended", `UPDATE eventhook.tenant SET status = 'suspended' WHERE slug = 'acme'`, true},
	{"the tenant is renamed", `UPDATE eventhook.tenant SET name = 'Acme Inc.' WHERE slug = 'acme'`, false},
	{"secrets are resealed", `UPDATE eventhook.source SET verifier = 'enc2:other'`, false},
	{"a handshake stores a secret", `INSERT INTO eventhook.learned_secret (source_id, tenant_id, secret, learned_at)
		SELECT id, tenant_id, 'enc2:x', now() FROM eventhook.source WHERE slug = 'crm'`, false},
	{"another tenant's subscription is created", `INSERT INTO eventhook.subscription (id, tenant_id, name, event_types, settings, secrets, created_at, updated_at)
		SELECT gen_random_uuid(), id, 'new', '{*}', '{}', '-', now(), now() FROM eventhook.tenant WHERE slug = 'globex'`, false},
}

// execSeparately runs and commits SQL on a separate connection.
func (f *fixture) execSeparately(sql string) {
	f.Helper()
	conn, err := pgx.Connect(f.Context(), f.dsn)
	f.must(err)
	defer func() { _ = conn.Close(f.Context()) }()
	_, err = conn.Exec(f.Context(), sql)
	f.must(err)
}

// planned returns an event of acme and one of another tenant, with current plans.
func (f *fixture) planned() (acme, umbrella *effects.Arrival) {
	f.Helper()
	other := f.secondTenant()
	f.exec(`INSERT INTO eventhook.tenant (id, slug, name) VALUES (gen_random_uuid(), 'globex', 'Globex')`)
	s := f.insertSubscription()
	acme = f.arrival(f.event(), f.executionAction(eventhook.Task, "k"), f.publishAction("payment.made", "", `{}`, s), requestAction(""))
	umbrella = f.arrival(f.event(func(e *eventhook.Event) { e.TenantID = other }), f.executionAction(eventhook.Task, "k"))
	return acme, umbrella
}

func TestAStalePlanIsNotStoredWithItsEvent(t *testing.T) {
	for _, c := range changes {
		t.Run(c.claim, func(t *testing.T) {
			f := setUp(t)
			a, other := f.planned()
			f.execSeparately(c.sql)
			f.accept(f.db, a, other)
			same(t, "stale", []bool{a.Plan.IsStale, other.Plan.IsStale}, []bool{c.isStale, false})
			same(t, "planned", []bool{a.IsPlanned(), other.IsPlanned()}, []bool{!c.isStale, true})
			same(t, "the other event", f.storedEvent(other.Event).Status, eventhook.EventDelivered)
			if !c.isStale {
				return
			}
			same(t, "the event", []any{f.storedEvent(a.Event).Status, a.Event.Status, a.Event.Lease}, []any{eventhook.EventProcessing, eventhook.EventProcessing,
				eventhook.Lease{Token: 1, Until: noon.Add(lease)}})
			same(t, "due", f.count("event", "id = $1 AND due_at = $2", [16]byte(a.Event.ID), noon.Add(lease)), 1)
			same(t, "rows", []int{f.count("execution", "true"), f.count("delivery", "true"), len(f.actions(a.Event))}, []int{1, 0, 0})
			f.settle(f.db, f.plan(a.Event, f.executionAction(eventhook.Task, "k")))
			same(t, "the key was free", f.actions(a.Event)[0].Status, eventhook.ActionSuccess)
		})
	}
}

func TestAStalePlanIsNotSettled(t *testing.T) {
	for _, c := range changes {
		t.Run(c.claim, func(t *testing.T) {
			f := setUp(t)
			a, other := f.planned()
			f.accept(f.db, arrivals(a.Event, other.Event)...)
			f.execSeparately(c.sql)
			unsettled, err := f.db.SettleEvents(t.Context(), []*effects.Settlement{a.Plan, other.Plan})
			f.must(err)
			same(t, "stale", []bool{a.Plan.IsStale, other.Plan.IsStale}, []bool{c.isStale, false})
			same(t, "the other event", f.storedEvent(other.Event).Status, eventhook.EventDelivered)
			if !c.isStale {
				same(t, "unsettled", len(unsettled), 0)
				return
			}
			same(t, "unsettled", len(unsettled) == 1 && unsettled[0] == a.Plan, true)
			same(t, "rows", []int{f.count("execution", "true"), f.count("delivery", "true"), len(f.actions(a.Event))}, []int{1, 0, 0})
			same(t, "the event", f.storedEvent(a.Event).Status, eventhook.EventProcessing)
			f.settle(f.db, f.plan(a.Event, f.executionAction(eventhook.Task, "k")))
		})
	}
}

func TestChangesOfOneTransactionCountOnce(t *testing.T) {
	f := setUp(t)
	f.insertSubscription()
	before := f.generation()
	tx, err := f.other.work.Begin(t.Context())
	f.must(err)
	for _, sql := range []string{`UPDATE eventhook.route SET priority = 7`, `UPDATE eventhook.source SET is_enabled = false`,
		`UPDATE eventhook.subscription SET status = 'paused'`, `UPDATE eventhook.tenant SET status = 'suspended' WHERE slug = 'acme'`, `DELETE FROM eventhook.route`} {
		_, err := tx.Exec(t.Context(), sql)
		f.must(err)
	}
	same(t, "before its commit", f.generation(), before)
	f.must(tx.Commit(t.Context()))
	same(t, "after it", f.generation(), before+1)
}

// A change that is not committed is not visible, and SettleEvents does not wait for it.
func TestAPlanIsCurrentUntilTheChangeIsCommitted(t *testing.T) {
	f := setUp(t)
	tx, err := f.other.work.Begin(t.Context())
	f.must(err)
	_, err = tx.Exec(t.Context(), `UPDATE eventhook.route SET priority = 7`)
	f.must(err)
	before, after := f.arrival(f.event(), f.executionAction(eventhook.Task, "")), f.arrival(f.event(), f.executionAction(eventhook.Task, ""))
	f.accept(f.db, before)
	f.must(tx.Commit(t.Context()))
	f.accept(f.db, after)
	same(t, "planned", []bool{before.IsPlanned(), after.IsPlanned()}, []bool{true, false})
}

// refusedInput is not JSON.
func refusedInput(x *eventhook.Execution) { x.Input = []byte(`{"a":`) }

func TestRefusedEffectsDoNotAffectOtherEvents(t *testing.T) {
	for _, size := range []int{1, 2, 5, 64} {
		for _, bad := range []int{0, size / 2, size - 1} {
			t.Run(fmt.Sprintf("%d of %d", bad+1, size), func(t *testing.T) {
				f := setUp(t)
				var batch []*effects.Arrival
				for i := range size {
					made := f.executionAction(eventhook.Task, "", func(x *eventhook.Execution) { x.Input = []byte(`{}`) })
					if i == bad {
						refusedInput(made.Effect.Execution)
					}
					batch = append(batch, f.arrival(f.event(withKey(fmt.Sprint(i))), f.executionAction(eventhook.Workflow, ""), made))
				}
				repeated := f.arrival(f.event(withKey(fmt.Sprint(bad))), f.executionAction(eventhook.Task, ""))
				f.accept(f.db, append(batch, repeated)...)
				for i, a := range batch {
					status := eventhook.EventDelivered
					if i == bad {
						status = eventhook.EventProcessing
						same(t, "the refused event's lease", a.Event.Lease, eventhook.Lease{Token: 1, Until: noon.Add(lease)})
						same(t, "its plan is refused", a.IsPlanRefused, true)
					}
					same(t, fmt.Sprint("event ", i), []eventhook.EventStatus{a.Event.Status, f.storedEvent(a.Event).Status}, []eventhook.EventStatus{status, status})
				}
				wantDuplicate(t, "of the refused event", repeated.Event, batch[bad].Event)
				same(t, "executions", f.count("execution", "true"), 2*(size-1))
			})
		}
	}
}

func TestARefusedEventDoesNotAffectTheEffectsOfOthers(t *testing.T) {
	f := setUp(t)
	var batch []*effects.Arrival
	for i := range 9 {
		batch = append(batch, f.arrival(f.event(withKey("k")), f.executionAction(eventhook.Task, fmt.Sprint(i))))
	}
	batch[0].Event.EventType = "a\x00b"
	f.accept(f.db, batch...)
	same(t, "the refused event", []any{batch[0].Event.Status, batch[0].IsPlanned()}, []any{eventhook.EventStatus(""), false})
	same(t, "the next event with the same key", batch[1].IsPlanned(), true)
	for _, a := range batch[2:] {
		wantDuplicate(t, "the rest", a.Event, batch[1].Event)
	}
	same(t, "executions", f.count("execution", "true"), 1)
}
