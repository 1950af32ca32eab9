package pg

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/outbound"
)

// eventWithRequests returns an event of the route's source with n due deliveries to http targets of
// the route, in the state after SettleEvents.
func (f *fixture) eventWithRequests(n int, bodies ...string) (*eventhook.Event, []*eventhook.Delivery) {
	f.Helper()
	f.exec(`UPDATE eventhook.route SET targets = (SELECT jsonb_agg('{"type":"http","url":"https://internal.example/"}'::jsonb) FROM generate_series(1, $2::int)) WHERE id = $1`,
		[16]byte(f.route.ID), n)
	f.clock.Advance(time.Millisecond)
	e := f.event(func(e *eventhook.Event) {
		e.TraceID, e.RequestID, e.SourceSlug = "4bf92f3577b34da6a3ce929d0e0e4736", "req-1", "crm"
		e.Body = []byte(`{"amount": 1.50}`)
		e.BodySize = len(e.Body)
	})
	f.withLease(e)
	f.must(f.db.Accept(f.Context(), arrivals(e)))
	plan := &effects.Settlement{Event: e}
	var list []*eventhook.Delivery
	for i := range n {
		d := &eventhook.Delivery{TenantID: e.TenantID, RouteID: f.route.ID, TargetIndex: i, EventID: e.ID, EventType: e.EventType}
		d.DestinationID = d.Destination().ID()
		d.ID = eventhook.DeliveryIDOf(e.ID, d.DestinationID)
		if i < len(bodies) {
			f.exec(`INSERT INTO eventhook.event_payload (event_id, headers, body) VALUES ($1, '', $2)`, [16]byte(d.ID), []byte(bodies[i]))
		}
		f.exec(`INSERT INTO eventhook.delivery (id, tenant_id, destination_id, route_id, target_index, has_body, event_id, due_at, status, event_type)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'pending', $9)`, [16]byte(d.ID), [16]byte(d.TenantID), [16]byte(d.DestinationID), [16]byte(d.RouteID), i,
			i < len(bodies), [16]byte(e.ID), f.clock.Now(), d.EventType)
		list = append(list, d)
		plan.Actions = append(plan.Actions, effects.PlannedAction{Action: eventhook.Action{
			EventID: e.ID, RouteID: f.route.ID, RouteName: f.route.Name, TargetIndex: i, TargetType: "http", IsRequest: true,
		}})
	}
	f.exec(`UPDATE eventhook.event SET due_at = NULL, actions = $2 WHERE id = $1`, [16]byte(e.ID), string(appendActions(nil, plan, f.clock.Now())))
	return e, list
}

// claimInOrder claims the deliveries, and returns them in their order.
func (f *fixture) claimInOrder(list []*eventhook.Delivery) []*eventhook.Delivery {
	f.Helper()
	claimed := make([]*eventhook.Delivery, len(list))
	for i, d := range list {
		got, err := f.db.ClaimDeliveries(f.Context(), []outbound.Claim{{DestinationID: d.DestinationID, Max: 1, Lease: lease}})
		f.must(err)
		same(f, "claimed", len(got), 1)
		claimed[i] = got[0]
	}
	return claimed
}

func TestAClaimedDeliveryOfARouteHasItsSourcesEvent(t *testing.T) {
	f := setUp(t)
	e, list := f.eventWithRequests(2, `{"made":true}`)
	due, err := f.db.DueDestinations(t.Context(), eventhook.DestinationID{}, 10)
	f.must(err)
	same(t, "due", len(due), 2)
	for _, d := range due {
		same(t, "its id", d.Destination().ID(), d.DestinationID)
	}
	claimed := f.claimInOrder(list)
	same(t, "stored body", string(claimed[0].Body), `{"made":true}`)
	same(t, "no body", claimed[1].Body == nil, true)
	same(t, "the destination", claimed[1].Destination(), list[1].Destination())
	same(t, "the event", claimed[1].Event, &eventhook.Event{
		ID: e.ID, TenantID: f.tenant, SourceID: f.crm, SourceSlug: "crm", Origin: eventhook.OriginSource, Status: eventhook.EventDelivered, EventType: "push",
		ContentType: "application/json", BodySize: e.BodySize, TraceID: e.TraceID, RequestID: "req-1", Payload: e.Payload,
	})
	f.exec(`DELETE FROM eventhook.event_payload WHERE event_id = $1`, [16]byte(list[0].ID))
	f.clock.Advance(lease)
	again := f.claimInOrder(list)
	same(t, "event and body after the retention", again[0].Event == nil && again[0].Body == nil, true)
	f.settleDeliveries(f.db, f.settlement(again[0], eventhook.DeliverySuccess), f.settlement(again[1], eventhook.DeliverySuccess))
}

func TestDeliveriesOfARouteEndTheirEvent(t *testing.T) {
	const ok, failed, dead = eventhook.DeliverySuccess, eventhook.DeliveryFailed, eventhook.DeliveryDead
	for _, c := range []struct {
		claim    string
		statuses []eventhook.DeliveryStatus // one settle each
		status   eventhook.EventStatus
		err      string
	}{
		{"all succeeded", []eventhook.DeliveryStatus{ok, ok}, eventhook.EventDelivered, ""},
		{"one is open", []eventhook.DeliveryStatus{ok}, eventhook.EventProcessing, ""},
		{"one is retried", []eventhook.DeliveryStatus{ok, failed}, eventhook.EventProcessing, ""},
		{"one is dead while another is open", []eventhook.DeliveryStatus{dead}, eventhook.EventDead, "target 1: the receiver answered 503"},
		{"one is dead and another succeeds later", []eventhook.DeliveryStatus{dead, ok}, eventhook.EventDead, "target 1: the receiver answered 503"},
		{"the last is dead", []eventhook.DeliveryStatus{ok, dead}, eventhook.EventDead, "target 2: the receiver answered 503"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			f := setUp(t)
			e, list := f.eventWithRequests(2)
			claimed := f.claimInOrder(list)
			f.clock.Advance(time.Second)
			var ended []eventhook.EventStatus
			for i, status := range c.statuses {
				s := f.settlement(claimed[i], status)
				f.settleDeliveries(f.db, s)
				if s.EventStatus != "" {
					ended = append(ended, s.EventStatus)
				}
			}
			got := f.storedEvent(e)
			same(t, "the event", []any{got.Status, got.LastError, got.ProcessedAt != nil}, []any{c.status, c.err, c.status != eventhook.EventProcessing})
			if c.status != eventhook.EventProcessing {
				same(t, "event status of the settlements", ended, []eventhook.EventStatus{c.status})
				same(t, "when", got.ProcessedAt.Equal(f.clock.Now()), true)
			}
		})
	}
}

func TestABatchEndsEachOfItsEventsOnce(t *testing.T) {
	f := setUp(t)
	one, first := f.eventWithRequests(2)
	two, second := f.eventWithRequests(2)
	all := f.claimInOrder(append(first, second...))
	var batch []*outbound.DeliverySettlement
	for i, d := range all {
		status := eventhook.DeliverySuccess
		if i == 2 {
			status = eventhook.DeliveryDead
		}
		batch = append(batch, f.settlement(d, status, func(s *outbound.DeliverySettlement) { s.DeadInRow = 0 }))
	}
	s := f.insertSubscription()
	dead := f.settlement(f.claimedDeliveries(1, s)[0], eventhook.DeliveryDead) // its settle also locks subscriptions
	f.settleDeliveries(f.db, append(batch, dead)...)
	same(t, "the events", []eventhook.EventStatus{f.storedEvent(one).Status, f.storedEvent(two).Status}, []eventhook.EventStatus{eventhook.EventDelivered, eventhook.EventDead})
	statuses := map[eventhook.EventStatus]int{}
	for _, s := range append(batch, dead) {
		statuses[s.EventStatus]++
	}
	same(t, "event statuses of the settlements", statuses, map[eventhook.EventStatus]int{"": 3, eventhook.EventDelivered: 1, eventhook.EventDead: 1})
	same(t, "system events about dead deliveries", f.count("event", "event_type = $1", deliveryFailedType), 1)
}

// A 410 response or consecutive dead deliveries disable nothing, since there is no
// subscription.
func TestADeadDeliveryOfARouteDisablesNothing(t *testing.T) {
	f := setUp(t)
	e, list := f.eventWithRequests(1)
	s := f.settlement(f.claimInOrder(list)[0], eventhook.DeliveryDead, func(s *outbound.DeliverySettlement) { s.Disable, s.DeadInRow = "the receiver answered 410 Gone", 1 })
	f.settleDeliveries(f.db, s)
	same(t, "the event", f.storedEvent(e).Status, eventhook.EventDead)
	same(t, "rows of subscription_health", f.count("subscription_health", "true"), 0)
	same(t, "system events", f.count("event", "origin = 'system'"), 0)
}

func TestALostLeaseEndsNoEvent(t *testing.T) {
	f := setUp(t)
	e, list := f.eventWithRequests(1)
	claimed := f.claimInOrder(list)
	f.clock.Advance(lease)
	f.claimInOrder(list)
	s := f.settlement(claimed[0], eventhook.DeliverySuccess)
	lost, err := f.db.SettleDeliveries(t.Context(), []*outbound.DeliverySettlement{s})
	f.must(err)
	same(t, "lost", len(lost), 1)
	same(t, "the event", f.storedEvent(e).Status, eventhook.EventProcessing)
	same(t, "announced", s.EventStatus, eventhook.EventStatus(""))
}

func TestWatchersAreNotifiedOfAnEventThatDeliveriesEnd(t *testing.T) {
	f := setUp(t)
	w := f.watch(f.db, f.tenant)
	f.pushing(f.db)
	e, list := f.eventWithRequests(1)
	f.settleDeliveries(f.db, f.settlement(f.claimInOrder(list)[0], eventhook.DeliverySuccess))
	w.until(e, eventhook.EventDelivered)
	f.replay(eventhook.DeliverySelection{IDs: []eventhook.DeliveryID{list[0].ID}, Statuses: []eventhook.DeliveryStatus{eventhook.DeliverySuccess}})
	w.until(e, eventhook.EventProcessing)
}

// txSession is a transaction that a test runs step by step.
type txSession struct {
	*fixture
	tx pgx.Tx
}

func (f *fixture) session() *txSession {
	f.Helper()
	conn, err := pgx.Connect(f.Context(), f.dsn)
	f.must(err)
	f.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, s := range workStatements {
		_, err := conn.Prepare(f.Context(), s.name, s.sql)
		f.must(err)
	}
	tx, err := conn.Begin(f.Context())
	f.must(err)
	return &txSession{f, tx}
}

// settleDelivery runs the first statement of a settle of deliveries.
func (s *txSession) settleDelivery(d *eventhook.Delivery, status eventhook.DeliveryStatus) error {
	b := &pgconn.Batch{}
	queueSettlements(b, newColumns(settleDeliveriesSQL), []*outbound.DeliverySettlement{s.settlement(d, status)}, true, s.clock.Now())
	_, err := s.tx.Conn().PgConn().ExecBatch(s.Context(), b).ReadAll()
	return err
}

// lockAndConclude runs the last two statements of a settle of deliveries.
func (s *txSession) lockAndConclude(e *eventhook.Event) error {
	_, err := concludeEvents(s.Context(), s.tx, []eventKey{{e.TenantID, e.ID}}, s.clock.Now())
	return err
}

// settleEvent runs the first statement of a settle of events, after which the event waits for its
// deliveries.
func (s *txSession) settleEvent(e *eventhook.Event) error {
	_, err := s.tx.Exec(s.Context(), `UPDATE eventhook.event SET due_at = NULL WHERE tenant_id = $1 AND id = $2`, [16]byte(e.TenantID), [16]byte(e.ID))
	return err
}

// concludeAfterSettle runs the last statement of a settle of events.
func (s *txSession) concludeAfterSettle(e *eventhook.Event) error {
	b, c := &pgconn.Batch{}, newColumns(concludeEventsSQL)
	encodeEventKeys(c, []eventKey{{e.TenantID, e.ID}})
	queueConcludeEvents(b, c, s.clock.Now())
	_, err := s.tx.Conn().PgConn().ExecBatch(s.Context(), b).ReadAll()
	return err
}

func (s *txSession) commit() error { return s.tx.Commit(s.Context()) }

// startBlocked starts the steps and returns when the session waits for a lock of another one.
// The returned function waits for the remaining steps.
func (s *txSession) startBlocked(steps ...func() error) (wait func()) {
	s.Helper()
	pid := s.tx.Conn().PgConn().PID()
	done := make(chan error, 1)
	go func() {
		for _, step := range steps {
			if err := step(); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for isBlocked := false; !isBlocked; {
		select {
		case err := <-done:
			s.Fatalf("the session did not wait for a lock: %v", err)
		default:
		}
		isBlocked = queryValue[bool](s.fixture, `SELECT cardinality(pg_blocking_pids($1)) > 0`, int(pid))
	}
	return func() {
		s.Helper()
		s.must(<-done)
	}
}

func (s *txSession) runs(steps ...func() error) {
	s.Helper()
	for _, step := range steps {
		s.must(step())
	}
}

func TestConcurrentSettlesOfDeliveriesEndTheEvent(t *testing.T) {
	for _, status := range []eventhook.DeliveryStatus{eventhook.DeliverySuccess, eventhook.DeliveryDead} {
		for _, order := range [][2]int{{0, 1}, {1, 0}} {
			for _, late := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %v, the other settled before: %t", status, order, late), func(t *testing.T) {
					f := setUp(t)
					e, list := f.eventWithRequests(2)
					claimed := f.claimInOrder(list)
					one, other := f.session(), f.session()
					settleOne := func() error { return one.settleDelivery(claimed[order[0]], eventhook.DeliverySuccess) }
					settleOther := func() error { return other.settleDelivery(claimed[order[1]], status) }
					concludeOther := func() error { return other.lockAndConclude(e) }
					one.runs(settleOne)
					var wait func()
					if late {
						other.runs(settleOther)
						one.runs(func() error { return one.lockAndConclude(e) })
						wait = other.startBlocked(concludeOther)
					} else {
						one.runs(func() error { return one.lockAndConclude(e) })
						wait = other.startBlocked(settleOther, concludeOther)
					}
					one.runs(one.commit)
					wait()
					other.runs(other.commit)
					want := eventhook.EventDelivered
					if status == eventhook.DeliveryDead {
						want = eventhook.EventDead
					}
					same(t, "the event", f.storedEvent(e).Status, want)
				})
			}
		}
	}
}

// SettleEvents leaves the event waiting for a delivery that is settled concurrently, as
// after a reprocessing.
func TestConcurrentSettlesOfAnEventAndItsDeliveryEndTheEvent(t *testing.T) {
	for _, c := range []struct {
		claim string
		run   func(events, deliveries *txSession, e *eventhook.Event, d *eventhook.Delivery)
	}{
		{"the settle of the delivery is first", func(events, deliveries *txSession, e *eventhook.Event, d *eventhook.Delivery) {
			deliveries.runs(func() error { return deliveries.settleDelivery(d, eventhook.DeliverySuccess) }, func() error { return deliveries.lockAndConclude(e) })
			wait := events.startBlocked(func() error { return events.settleEvent(e) }, func() error { return events.concludeAfterSettle(e) })
			deliveries.runs(deliveries.commit)
			wait()
			events.runs(events.commit)
		}},
		{"the settle of the event is first", func(events, deliveries *txSession, e *eventhook.Event, d *eventhook.Delivery) {
			events.runs(func() error { return events.settleEvent(e) }, func() error { return events.concludeAfterSettle(e) })
			wait := deliveries.startBlocked(func() error { return deliveries.settleDelivery(d, eventhook.DeliverySuccess) }, func() error { return deliveries.lockAndConclude(e) })
			events.runs(events.commit)
			wait()
			deliveries.runs(deliveries.commit)
		}},
		{"each request has begun", func(events, deliveries *txSession, e *eventhook.Event, d *eventhook.Delivery) {
			deliveries.runs(func() error { return deliveries.settleDelivery(d, eventhook.DeliverySuccess) })
			events.runs(func() error { return events.settleEvent(e) })
			wait := deliveries.startBlocked(func() error { return deliveries.lockAndConclude(e) })
			events.runs(func() error { return events.concludeAfterSettle(e) }, events.commit)
			wait()
			deliveries.runs(deliveries.commit)
		}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			f := setUp(t)
			e, list := f.eventWithRequests(1)
			claimed := f.claimInOrder(list)
			f.exec(`UPDATE eventhook.event SET due_at = $2 WHERE id = $1`, [16]byte(e.ID), f.clock.Now().Add(lease)) // leased again
			c.run(f.session(), f.session(), e, claimed[0])
			same(t, "the event", f.storedEvent(e).Status, eventhook.EventDelivered)
		})
	}
}

// A due event is ended by its own settle only.
func TestDeliveriesDoNotEndADueEvent(t *testing.T) {
	for _, status := range []eventhook.EventStatus{eventhook.EventProcessing, eventhook.EventFailed} {
		f := &fixture{}
		t.Run(string(status), func(t *testing.T) {
			f = setUp(t)
			e, list := f.eventWithRequests(1)
			claimed := f.claimInOrder(list)
			f.exec(`UPDATE eventhook.event SET status = $3, due_at = $2 WHERE id = $1`, [16]byte(e.ID), f.clock.Now().Add(lease), string(status))
			f.settleDeliveries(f.db, f.settlement(claimed[0], eventhook.DeliveryDead))
			same(t, "the event", f.storedEvent(e).Status, status)
		})
	}
}

// replay replays deliveries and returns their ids.
func (f *fixture) replay(which eventhook.DeliverySelection) []eventhook.DeliveryID {
	f.Helper()
	if len(which.IDs) == 0 && which.Limit == 0 {
		which.Limit = 100
	}
	ids, err := f.db.RestartDeliveries(f.Context(), eventhook.Actor{Type: eventhook.ActorOperator}, f.tenant, which)
	f.must(err)
	return ids
}

func TestARetryReopensTheEvent(t *testing.T) {
	f := setUp(t)
	e, list := f.eventWithRequests(2)
	other, others := f.eventWithRequests(2)
	claimed := f.claimInOrder(append(list, others...))
	f.settleDeliveries(f.db, f.settlement(claimed[0], eventhook.DeliveryDead), f.settlement(claimed[1], eventhook.DeliverySuccess),
		f.settlement(claimed[2], eventhook.DeliveryDead), f.settlement(claimed[3], eventhook.DeliveryDead))
	same(t, "the event", f.storedEvent(e).Status, eventhook.EventDead)
	same(t, "replayed dead deliveries of the route", len(f.replay(eventhook.DeliverySelection{RouteID: f.route.ID, EventID: e.ID})), 1)
	got := f.storedEvent(e)
	same(t, "reopened", []any{got.Status, got.LastError, got.ProcessedAt == nil}, []any{eventhook.EventProcessing, "", true})
	same(t, "claimable by a processor", len(f.claimEvents(f.db, 10)), 0)
	f.settleDeliveries(f.db, f.settlement(f.claimInOrder(list[:1])[0], eventhook.DeliverySuccess))
	same(t, "event at the end", f.storedEvent(e).Status, eventhook.EventDelivered)

	// One of two dead deliveries is replayed; the other is still dead.
	same(t, "replayed", len(f.replay(eventhook.DeliverySelection{IDs: []eventhook.DeliveryID{others[0].ID}})), 1)
	same(t, "reopened", f.storedEvent(other).Status, eventhook.EventProcessing)
	f.settleDeliveries(f.db, f.settlement(f.claimInOrder(others[:1])[0], eventhook.DeliverySuccess))
	same(t, "the other event", f.storedEvent(other).Status, eventhook.EventDead)
}

func TestAnEventWithAFailedActionStaysDead(t *testing.T) {
	f := setUp(t)
	e, list := f.eventWithRequests(1)
	f.settleDeliveries(f.db, f.settlement(f.claimInOrder(list)[0], eventhook.DeliveryDead))
	f.exec(`UPDATE eventhook.event SET actions = (actions::jsonb || '[{"r":"AAAAAAAAAAAAAAAAAAAAAA","n":"other","i":1,"t":"promise","s":"failed","e":"nothing there"}]')::json
		WHERE id = $1`, [16]byte(e.ID))
	same(t, "replayed", len(f.replay(eventhook.DeliverySelection{RouteID: f.route.ID})), 1)
	same(t, "the event", f.storedEvent(e).Status, eventhook.EventDead)
	f.settleDeliveries(f.db, f.settlement(f.claimInOrder(list)[0], eventhook.DeliverySuccess))
	same(t, "status at the end", f.storedEvent(e).Status, eventhook.EventDead)
}

func TestDeliveriesOfADeletedTargetAreDead(t *testing.T) {
	for _, c := range []struct {
		claim  string
		change string
		isGone bool
	}{
		{"nothing changes", `SELECT`, false},
		{"the route is disabled", `UPDATE eventhook.route SET is_enabled = false`, false},
		{"the route is deleted", `DELETE FROM eventhook.route`, true},
		{"the source is deleted", `DELETE FROM eventhook.source`, true},
		{"the target has another type", `UPDATE eventhook.route SET targets = '[{"type":"task","task_kind":"k"}]'`, true},
		{"the target does not exist", `UPDATE eventhook.route SET targets = '[]'`, true},
		{"the tenant is suspended", `UPDATE eventhook.tenant SET status = 'suspended'`, false},
		{"the tenant is closed", `UPDATE eventhook.tenant SET status = 'closed'`, true},
	} {
		t.Run(c.claim, func(t *testing.T) {
			f := setUp(t)
			e, list := f.eventWithRequests(1)
			f.exec(c.change)
			n, err := f.db.AbandonDeliveries(t.Context(), list[0].Destination(), "the route was deleted", 10)
			f.must(err)
			want, status, why := 0, eventhook.EventProcessing, ""
			if c.isGone {
				want, status, why = 1, eventhook.EventDead, "target 1: the route was deleted"
			}
			same(t, "abandoned", n, want)
			got := f.storedEvent(e)
			same(t, "the event", []any{got.Status, got.LastError}, []any{status, why})
			if !c.isGone {
				f.settleDeliveries(f.db, f.settlement(f.claimInOrder(list)[0], eventhook.DeliverySuccess))
				return
			}
			if got := queryValue[string](f, `SELECT status FROM eventhook.tenant WHERE id = $1`, [16]byte(f.tenant)); got == "closed" {
				return // this status accepts no requests
			}
			same(t, "replayed", len(f.replay(eventhook.DeliverySelection{IDs: []eventhook.DeliveryID{list[0].ID}})), 0)
		})
	}
}

// Deliveries of a disabled route wait, but not forever.
func TestOldDeliveriesOfARouteExpireWithTheirEvent(t *testing.T) {
	f := setUp(t)
	e, _ := f.eventWithRequests(1)
	f.clock.Advance(2 * day)
	n, err := f.db.ExpireDeliveries(t.Context(), day)
	f.must(err)
	same(t, "expired", n, 1)
	got := f.storedEvent(e)
	same(t, "the event", []any{got.Status, got.LastError}, []any{eventhook.EventDead, "target 1: older than 24 h"})
}

func TestDeliveriesOfARouteAreListed(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	f.publishTo(2, s)
	e, first := f.eventWithRequests(3)
	_, second := f.eventWithRequests(3)
	claimed := f.claimInOrder(first)
	f.settleDeliveries(f.db, f.settlement(claimed[0], eventhook.DeliverySuccess), f.settlement(claimed[1], eventhook.DeliveryDead))
	list := func(filter eventhook.DeliveryFilter) (n int) {
		t.Helper()
		if filter.Limit == 0 {
			filter.Limit = 10
		}
		found, err := f.db.Deliveries(t.Context(), f.tenant, filter)
		f.must(err)
		for i, d := range found {
			if filter.RouteID == f.route.ID {
				same(t, "its destination", d.Destination().ID(), d.DestinationID)
			}
			if i > 0 && string(d.ID[:]) >= string(found[i-1].ID[:]) {
				t.Errorf("%+v: delivery %d is not older than the one before", filter, i)
			}
		}
		return len(found)
	}
	for _, c := range []struct {
		claim  string
		filter eventhook.DeliveryFilter
		want   int
	}{
		{"all deliveries", eventhook.DeliveryFilter{}, 8},
		{"deliveries of the subscription", eventhook.DeliveryFilter{SubscriptionID: s.ID}, 2},
		{"deliveries of the route", eventhook.DeliveryFilter{RouteID: f.route.ID}, 6},
		{"the newest deliveries of the route", eventhook.DeliveryFilter{RouteID: f.route.ID, Limit: 4}, 4},
		{"deliveries of another route", eventhook.DeliveryFilter{RouteID: eventhook.NewID[eventhook.Route](noon)}, 0},
		{"the route and a subscription", eventhook.DeliveryFilter{RouteID: f.route.ID, SubscriptionID: s.ID}, 0},
		{"dead deliveries of the route", eventhook.DeliveryFilter{RouteID: f.route.ID, Status: "dead"}, 1},
		{"successful deliveries of the route", eventhook.DeliveryFilter{RouteID: f.route.ID, Status: "success"}, 1},
		{"acquired deliveries of the route", eventhook.DeliveryFilter{RouteID: f.route.ID, Status: "acquired"}, 1},
		{"pending deliveries of the route", eventhook.DeliveryFilter{RouteID: f.route.ID, Status: "pending"}, 3},
		{"pending deliveries", eventhook.DeliveryFilter{Status: "pending"}, 5},
		{"an event and its route", eventhook.DeliveryFilter{RouteID: f.route.ID, EventID: e.ID}, 3},
		{"an event and another route", eventhook.DeliveryFilter{RouteID: eventhook.NewID[eventhook.Route](noon), EventID: e.ID}, 0},
		{"before the second event", eventhook.DeliveryFilter{RouteID: f.route.ID, CreatedBefore: second[0].EventID.Time()}, 3},
	} {
		same(t, c.claim, list(c.filter), c.want)
	}
	all, n, err := f.db.EventDeliveries(t.Context(), f.tenant, e.ID, 10)
	f.must(err)
	same(t, "deliveries of the event", []int{len(all), n}, []int{3, 3})
}
