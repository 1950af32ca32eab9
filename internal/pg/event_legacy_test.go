package pg

import (
	"context"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/migrations"
	"github.com/eventhook/eventhook/outbound"
)

// legacySchema is the schema version before events were stored with their effects.
const legacySchema = 11

// migrateDown undoes the migrations after legacySchema, as an operator does at a downgrade.
func (f *fixture) migrateDown(conn *pgx.Conn) {
	f.Helper()
	newest, err := migrations.Newest()
	f.must(err)
	for v := newest; v > legacySchema; v-- {
		names, err := fs.Glob(migrations.FS, fmt.Sprintf("%06d_*.down.sql", v))
		f.must(err)
		if len(names) == 0 {
			continue // no migration has this number
		}
		sql, err := fs.ReadFile(migrations.FS, names[0])
		f.must(err)
		if _, err = conn.Exec(f.Context(), string(sql)); err != nil {
			f.Fatalf("%s: %v", names[0], err)
		}
	}
	_, err = conn.Exec(f.Context(), `UPDATE eventhook.schema_migrations SET version = $1`, legacySchema)
	f.must(err)
}

// migrateUp migrates to the newest schema and reopens the database.
func (f *fixture) migrateUp() {
	f.Helper()
	f.must(migrations.Up(f.Context(), f.dsn))
	f.db, f.other = f.open(), f.open()
}

// legacy writes rows as the earlier version does.
type legacy struct {
	*fixture
	conn *pgx.Conn
}

func (f legacy) run(sql string, args ...any) {
	f.Helper()
	_, err := f.conn.Exec(f.Context(), sql, args...)
	f.must(err)
}

func (f legacy) event(status string, due any) eventhook.EventID {
	f.Helper()
	id := eventhook.NewID[eventhook.Event](f.clock.Now())
	f.run(`INSERT INTO eventhook.event (id, tenant_id, source_id, due_at, lease_token, status, origin, event_type, content_type, body_size)
		VALUES ($1, $2, $3, $4, 1, $5, 'source', 'push', 'application/json', 2)`, [16]byte(id), [16]byte(f.tenant), [16]byte(f.crm), due, status)
	f.run(`INSERT INTO eventhook.event_payload (event_id, headers, body) VALUES ($1, 'X-A: b', '{}')`, [16]byte(id))
	return id
}

func (f legacy) action(event eventhook.EventID, index int, typ, status string) {
	f.Helper()
	f.run(`INSERT INTO eventhook.event_action (event_id, route_id, target_index, id, route_name, target_type, status, attempts, execution_id, error_message, started_at, completed_at)
		VALUES ($1, $2, $3, gen_random_uuid(), 'former', $4, $5, CASE $5 WHEN 'pending' THEN 0 ELSE 1 END, CASE $4 WHEN 'task' THEN gen_random_uuid() END,
			CASE $5 WHEN 'failed' THEN 'down' END, $6, CASE WHEN $5 <> 'pending' THEN $6::timestamptz END)`,
		[16]byte(event), [16]byte(f.route.ID), index, typ, status, f.clock.Now())
}

// published stores an event for subscribers with a delivery.
func (f legacy) published(to *eventhook.Subscription, status string, due any) *eventhook.Delivery {
	f.Helper()
	id := eventhook.NewID[eventhook.Event](f.clock.Now())
	d := &eventhook.Delivery{ID: eventhook.DeliveryIDOf(id, eventhook.DestinationID(to.ID)), SubscriptionID: to.ID, DestinationID: eventhook.DestinationID(to.ID), EventID: id}
	f.run(`INSERT INTO eventhook.event (id, tenant_id, status, origin, event_type, content_type, body_size, processed_at)
		VALUES ($1, $2, 'delivered', 'route', 'payment.made', 'application/json', 7, $3)`, [16]byte(id), [16]byte(f.tenant), f.clock.Now())
	f.run(`INSERT INTO eventhook.event_payload (event_id, headers, body, envelope) VALUES ($1, '', '{"n":1}', '{"source":"crm"}')`, [16]byte(id))
	f.run(`INSERT INTO eventhook.delivery (id, tenant_id, subscription_id, event_id, due_at, completed_at, lease_token, status, event_type)
		VALUES ($1, $2, $3, $4, $5, CASE WHEN $5::timestamptz IS NULL THEN $7::timestamptz END, 1, $6, 'payment.made')`,
		[16]byte(d.ID), [16]byte(f.tenant), [16]byte(to.ID), [16]byte(id), due, status, f.clock.Now())
	return d
}

// downgrade undoes the migrations and returns a writer of rows of the earlier version.
func (f *fixture) downgrade() legacy {
	f.Helper()
	conn, err := pgx.Connect(f.Context(), f.dsn)
	f.must(err)
	f.Cleanup(func() { _ = conn.Close(context.Background()) })
	f.migrateDown(conn)
	return legacy{f, conn}
}

func TestAnUpgradeLosesAndRepeatsNoEffect(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	generation := f.generation()
	w := f.downgrade()
	until := noon.Add(lease)
	pending, leased, failed := w.event("pending", noon), w.event("processing", until), w.event("failed", until)
	w.run(`UPDATE eventhook.event SET retry_count = 1, last_error = 'down', processed_at = $2 WHERE id = $1`, [16]byte(failed), noon)
	w.action(failed, 0, "task", "success")
	w.action(failed, 1, "task", "failed")
	calling := w.event("processing", until)
	w.action(calling, 0, "task", "success")
	w.action(calling, 1, "http", "pending")
	w.action(calling, 2, "http", "success")
	done := w.event("delivered", nil)
	w.run(`UPDATE eventhook.event SET processed_at = $2 WHERE id = $1`, [16]byte(done), noon)
	w.action(done, 0, "task", "success")
	due, held, sent := w.published(s, "pending", noon), w.published(s, "acquired", until), w.published(s, "success", nil)

	f.migrateUp()
	same(t, "the generation", f.generation(), generation)
	same(t, "claimed at first", len(f.claimEvents(f.db, 10)), 1)
	same(t, "deliveries at first", len(f.claimInOrder([]*eventhook.Delivery{due})), 1)
	f.clock.Advance(lease)
	claimed := map[eventhook.EventID]*eventhook.Event{}
	for _, e := range f.claimEvents(f.other, 10) {
		claimed[e.ID] = e
	}
	same(t, "claimed when the leases end", len(claimed), 4)
	for _, id := range []eventhook.EventID{pending, leased, failed, calling} {
		e := claimed[id]
		same(t, "its body", string(e.Body), "{}")
		plan := f.plan(e, f.executionAction(eventhook.Task, ""), f.executionAction(eventhook.Task, ""))
		want := 2
		switch id {
		case failed:
			want = 1
		case calling:
			plan, want = f.plan(e, f.executionAction(eventhook.Task, ""), requestAction(""), requestAction("")), 1
		}
		same(t, "actions to execute again", len(plan.Actions), want)
		f.settle(f.db, plan)
	}
	same(t, "executions", f.count("execution", "true"), 5)
	const success = eventhook.ActionSuccess
	same(t, "the failed event", f.statuses(claimed[failed]), []eventhook.ActionStatus{success, success})
	same(t, "its attempts", f.actions(claimed[failed])[1].Attempts, 2)
	same(t, "an event that ended before", f.statuses(&eventhook.Event{ID: done, TenantID: f.tenant}), []eventhook.ActionStatus{success})
	same(t, "event with an open request", f.storedEvent(claimed[calling]).Status, eventhook.EventProcessing)
	f.clock.Advance(time.Millisecond)
	to := eventhook.Destination{TenantID: f.tenant, RouteID: f.route.ID, TargetIndex: 1}
	f.settleRequest(&eventhook.Delivery{DestinationID: to.ID()}, eventhook.DeliverySuccess)
	same(t, "status at the end", f.storedEvent(claimed[calling]).Status, eventhook.EventDelivered)
	same(t, "its actions", len(f.actions(claimed[calling])), 3)

	list, err := f.db.ClaimDeliveries(t.Context(), []outbound.Claim{{DestinationID: eventhook.DestinationID(s.ID), Max: 10, Lease: lease}})
	f.must(err)
	same(t, "deliveries when the leases end", len(list), 2)
	for _, d := range list {
		same(t, "its event", []any{string(d.Event.Body), d.Event.Envelope.Source}, []any{`{"n":1}`, "crm"})
		f.settleDeliveries(f.db, f.settlement(d, eventhook.DeliverySuccess))
	}
	for _, d := range []*eventhook.Delivery{due, held, sent} {
		got, _ := f.delivery(d.ID)
		same(t, "delivery at the end", got.Status, eventhook.DeliverySuccess)
	}
}

func TestADowngradeLosesNothingAndRepeatsNoExecution(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	a := f.arrival(f.event(), f.executionAction(eventhook.Task, "k"), requestAction(`{"made":1}`), requestAction(""), f.publishAction("payment.made", "", `{}`, s))
	a.Plan.Actions[3].Effect.Publication.Envelope = &eventhook.Envelope{Source: "crm"}
	own := f.publishAction("payment.seen", "", `{"own":1}`, s)
	own.Effect.Publication.Envelope = &eventhook.Envelope{Source: "shop"}
	retried := f.leasedEvents(1)[0]
	f.accept(f.db, a, f.arrival(f.event(), own))
	f.settle(f.db, f.plan(retried, f.executionAction(eventhook.Task, ""), failedAction("down")))
	f.settleRequest(a.Plan.Actions[1].Effect.Request.Delivery, eventhook.DeliverySuccess)
	same(t, "the event waits", f.storedEvent(a.Event).Status, eventhook.EventProcessing)

	w := f.downgrade()
	var n int
	read := func(sql string, args ...any) int {
		f.must(w.conn.QueryRow(t.Context(), sql, args...).Scan(&n))
		return n
	}
	same(t, "the event is due", read(`SELECT count(*) FROM eventhook.event WHERE id = $1 AND due_at IS NOT NULL AND status = 'processing'`, [16]byte(a.Event.ID)), 1)
	same(t, "successful actions", read(`SELECT count(*) FROM eventhook.event_action WHERE event_id = $1 AND status = 'success'`, [16]byte(a.Event.ID)), 3)
	same(t, "pending requests", read(`SELECT count(*) FROM eventhook.event_action WHERE event_id = $1 AND status = 'pending' AND attempts = 0 AND completed_at IS NULL`, [16]byte(a.Event.ID)), 1)
	same(t, "its task", read(`SELECT count(*) FROM eventhook.event_action WHERE event_id = $1 AND target_index = 0 AND execution_id = $2`,
		[16]byte(a.Event.ID), [16]byte(a.Plan.Actions[0].Effect.Execution.ID)), 1)
	same(t, "published event", read(`SELECT count(*) FROM eventhook.event_action WHERE event_id = $1 AND published_event_id = $2`,
		[16]byte(a.Event.ID), [16]byte(a.Plan.Actions[3].Effect.Publication.ID)), 1)
	same(t, "actions of the event that failed", read(`SELECT count(*) FROM eventhook.event_action WHERE event_id = $1 AND (status = 'failed') = (error_message = 'down')`, [16]byte(retried.ID)), 1)
	same(t, "payload of the published event", read(`SELECT count(*) FROM eventhook.event_payload WHERE event_id = $1 AND body = '{}' AND envelope->>'source' = 'crm'`,
		[16]byte(a.Plan.Actions[3].Effect.Publication.ID)), 1)
	same(t, "payload of the other published event", read(`SELECT count(*) FROM eventhook.event_payload WHERE event_id = $1 AND body = '{"own":1}' AND envelope->>'source' = 'shop'`, [16]byte(own.Effect.Publication.ID)), 1)
	same(t, "deliveries", read(`SELECT count(*) FROM eventhook.delivery WHERE subscription_id = $1`, [16]byte(s.ID)), 2)
	same(t, "all deliveries", read(`SELECT count(*) FROM eventhook.delivery`), 2)

	// Upgrade again, with open work.
	f.migrateUp()
	f.exec(`UPDATE eventhook.event SET due_at = $2 WHERE id = $1`, [16]byte(a.Event.ID), noon) // due by the system clock instead of the test's clock
	f.clock.Advance(time.Minute)
	claimed := f.claimEvents(f.db, 10)
	same(t, "claimed", len(claimed), 2)
	for _, e := range claimed {
		if e.ID == retried.ID {
			f.settle(f.db, f.plan(e, f.executionAction(eventhook.Task, ""), f.executionAction(eventhook.Task, "")))
			continue
		}
		plan := f.plan(e, f.executionAction(eventhook.Task, "k"), requestAction(`{"made":1}`), requestAction(""), f.publishAction("payment.made", "", `{}`, s))
		same(t, "planned again", len(plan.Actions), 1)
		f.settle(f.db, plan)
		f.settleRequest(plan.Actions[0].Effect.Request.Delivery, eventhook.DeliverySuccess)
	}
	same(t, "executions", f.count("execution", "true"), 3)
	same(t, "events", f.counts(`SELECT status, count(*) FROM eventhook.event WHERE source_id IS NOT NULL GROUP BY 1`), map[string]int{"delivered": 3})
	same(t, "claimed deliveries", len(f.claimDeliveries(f.db, 10, s)), 2)
	f.exec(`UPDATE eventhook.event_action SET route_name = 'former'`)
}
