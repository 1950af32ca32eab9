package pg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/outbound"
)

// insertSubscription inserts a subscription of acme with SQL.
func (f *fixture) insertSubscription(change ...func(*eventhook.Subscription)) *eventhook.Subscription {
	f.Helper()
	s := &eventhook.Subscription{ID: eventhook.NewID[eventhook.Subscription](f.clock.Now()), TenantID: f.tenant, Name: "billing", Status: eventhook.SubscriptionActive}
	for _, c := range change {
		c(s)
	}
	f.exec(`INSERT INTO eventhook.subscription (id, tenant_id, name, status, event_types, settings, secrets, created_at, updated_at)
		VALUES ($1, $2, $3, $4, '{payment.*}', '{}', '-', $5, $5)`, [16]byte(s.ID), [16]byte(s.TenantID), s.Name, string(s.Status), f.clock.Now())
	return s
}

// newPublication returns an event that matches the subscribers, without leases.
func (f *fixture) newPublication(key string, to ...*eventhook.Subscription) *outbound.PublishItem {
	f.Helper()
	e := f.event(func(e *eventhook.Event) {
		e.SourceID, e.Origin, e.EventType, e.IdempotencyKey = eventhook.SourceID{}, eventhook.OriginAPI, "payment.made", key
		e.Body, e.Headers = []byte(`{"amount": 1.50}`), nil
	})
	p := &outbound.PublishItem{Event: e, Generation: f.generation()}
	for _, s := range to {
		p.Deliveries = append(p.Deliveries, &eventhook.Delivery{ID: eventhook.DeliveryIDOf(e.ID, eventhook.DestinationID(s.ID)), DestinationID: eventhook.DestinationID(s.ID), SubscriptionID: s.ID})
	}
	return p
}

func (f *fixture) publish(db *DB, batch ...*outbound.PublishItem) {
	f.Helper()
	f.must(db.Publish(f.Context(), batch))
}

// publishTo publishes n events to a subscription, a millisecond apart.
func (f *fixture) publishTo(n int, to *eventhook.Subscription) (list []*eventhook.Delivery) {
	f.Helper()
	var batch []*outbound.PublishItem
	for range n {
		f.clock.Advance(time.Millisecond)
		p := f.newPublication("", to)
		batch, list = append(batch, p), append(list, p.Deliveries...)
	}
	f.publish(f.db, batch...)
	return list
}

func (f *fixture) claimDeliveries(db *DB, maxCount int, of ...*eventhook.Subscription) []*eventhook.Delivery {
	f.Helper()
	var claims []outbound.Claim
	for _, s := range of {
		claims = append(claims, outbound.Claim{DestinationID: eventhook.DestinationID(s.ID), Max: maxCount, Lease: lease})
	}
	list, err := db.ClaimDeliveries(f.Context(), claims)
	f.must(err)
	return list
}

// claimedDeliveries publishes n events to a subscription and claims the deliveries.
func (f *fixture) claimedDeliveries(n int, to *eventhook.Subscription) []*eventhook.Delivery {
	f.Helper()
	f.publishTo(n, to)
	list := f.claimDeliveries(f.db, n, to)
	same(f, "claimed", len(list), n)
	slices.SortFunc(list, func(x, y *eventhook.Delivery) int { return slices.Compare(x.ID[:], y.ID[:]) })
	return list
}

// settlement returns the settlement of a delivery after one attempt.
func (f *fixture) settlement(d *eventhook.Delivery, status eventhook.DeliveryStatus, change ...func(*outbound.DeliverySettlement)) *outbound.DeliverySettlement {
	a := &eventhook.Attempt{StartedAt: f.clock.Now(), Duration: 12 * time.Millisecond, StatusCode: 200, Excerpt: "ok"}
	s := &outbound.DeliverySettlement{Delivery: d, Attempt: a, Status: status, DeadInRow: 10}
	if status != eventhook.DeliverySuccess {
		a.StatusCode, a.ErrorClass, a.Error, a.Excerpt = 503, eventhook.ErrorHTTP5xx, "the receiver answered 503", "<busy>"
		s.LastError, s.RetryCount, s.DueAt = a.Error, d.RetryCount+1, f.clock.Now().Add(time.Second)
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func (f *fixture) settleDeliveries(db *DB, batch ...*outbound.DeliverySettlement) {
	f.Helper()
	lost, err := db.SettleDeliveries(f.Context(), batch)
	f.must(err)
	if len(lost) > 0 {
		f.Fatalf("%d leases were lost, want none", len(lost))
	}
}

func (f *fixture) delivery(id eventhook.DeliveryID) (eventhook.Delivery, []eventhook.Attempt) {
	f.Helper()
	d, attempts, err := f.db.Delivery(f.Context(), f.tenant, id)
	f.must(err)
	return d, attempts
}

func (f *fixture) dueDestinations(after eventhook.SubscriptionID, limit int) []eventhook.SubscriptionID {
	f.Helper()
	list, err := f.db.DueDestinations(f.Context(), eventhook.DestinationID(after), limit)
	f.must(err)
	ids := []eventhook.SubscriptionID{}
	for _, d := range list {
		same(f, "the destination's tenant", d.TenantID, f.tenant)
		ids = append(ids, eventhook.SubscriptionID(d.DestinationID))
	}
	return ids
}

func TestDueDestinations(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	var subs []*eventhook.Subscription
	for range 5 {
		subs = append(subs, f.insertSubscription())
	}
	slices.SortFunc(subs, func(x, y *eventhook.Subscription) int { return slices.Compare(x.ID[:], y.ID[:]) })
	same(t, "without open deliveries", f.dueDestinations(eventhook.SubscriptionID{}, 10), []eventhook.SubscriptionID{})
	for _, s := range []*eventhook.Subscription{subs[0], subs[1], subs[3], subs[4]} {
		f.publishTo(3, s)
	}
	f.claimDeliveries(f.other, 10, subs[1]) // all of its deliveries, so that it is not due
	f.claimDeliveries(f.other, 1, subs[3])
	same(t, "due destinations", f.dueDestinations(eventhook.SubscriptionID{}, 10), []eventhook.SubscriptionID{subs[0].ID, subs[3].ID, subs[4].ID})
	same(t, "the first", f.dueDestinations(eventhook.SubscriptionID{}, 1), []eventhook.SubscriptionID{subs[0].ID})
	same(t, "the next", f.dueDestinations(subs[0].ID, 2), []eventhook.SubscriptionID{subs[3].ID, subs[4].ID})
	same(t, "the end", f.dueDestinations(subs[4].ID, 2), []eventhook.SubscriptionID{})
	f.clock.Advance(day) // another partition
	f.publishTo(1, subs[2])
	same(t, "when the leases have run out", len(f.dueDestinations(eventhook.SubscriptionID{}, 10)), 5)
}

func TestAClaimedDeliveryHasItsEvent(t *testing.T) {
	f := setUp(t)
	s, another := f.insertSubscription(), f.insertSubscription()
	p := f.newPublication("k", s, another)
	p.Event.TraceID, p.Event.RequestID, p.Event.CorrelationID = "4bf92f3577b34da6a3ce929d0e0e4736", "req-1", "order-7"
	p.Event.Envelope = &eventhook.Envelope{Category: "money", Scope: []byte(`{"a":1}`), TraceFlags: "01"}
	f.publish(f.db, p)
	list := f.claimDeliveries(f.other, 10, s, another)
	same(t, "claimed", len(list), 2)
	same(t, "they share the event", list[0].Event, list[1].Event)
	i := slices.IndexFunc(list, func(d *eventhook.Delivery) bool { return d.SubscriptionID == s.ID })
	same(t, "the delivery", *list[i], eventhook.Delivery{
		ID: p.Deliveries[0].ID, TenantID: f.tenant, DestinationID: eventhook.DestinationID(s.ID), SubscriptionID: s.ID, EventID: p.Event.ID, EventType: "payment.made",
		Status: eventhook.DeliveryAcquired, Lease: eventhook.Lease{Token: 1, Until: f.clock.Now().Add(lease)}, DueSince: f.clock.Now(),
		Event: &eventhook.Event{
			ID: p.Event.ID, TenantID: f.tenant, Origin: eventhook.OriginAPI, Status: eventhook.EventDelivered, EventType: "payment.made",
			ContentType: "application/json", BodySize: 16, TraceID: p.Event.TraceID, RequestID: "req-1", CorrelationID: "order-7",
			Envelope: p.Event.Envelope, Payload: eventhook.Payload{Headers: []byte{}, Body: p.Event.Body},
		},
	})
	f.exec(`DELETE FROM eventhook.event_payload`)
	f.exec(`DELETE FROM eventhook.event`)
	f.clock.Advance(lease)
	again := f.claimDeliveries(f.db, 10, s)
	same(t, "claimed after its event was dropped", len(again), 1)
	same(t, "its token", again[0].Lease.Token, int64(2))
	same(t, "its event", again[0].Event, &eventhook.Event{ID: p.Event.ID, TenantID: f.tenant, Status: eventhook.EventDelivered, EventType: "payment.made"})
}

func TestAClaimTakesTheOldestOfEachDestination(t *testing.T) {
	f := setUp(t)
	a, b, idle := f.insertSubscription(), f.insertSubscription(), f.insertSubscription()
	fromA, fromB := f.publishTo(5, a), f.publishTo(2, b)
	ids := func(list []*eventhook.Delivery) (ids []eventhook.DeliveryID) {
		for _, d := range list {
			ids = append(ids, d.ID)
		}
		slices.SortFunc(ids, func(x, y eventhook.DeliveryID) int { return slices.Compare(x[:], y[:]) })
		return ids
	}
	f.clock.Advance(time.Second)
	list, err := f.db.ClaimDeliveries(t.Context(), []outbound.Claim{
		{DestinationID: eventhook.DestinationID(b.ID), Max: 9, Lease: time.Minute}, {DestinationID: eventhook.DestinationID(idle.ID), Max: 9, Lease: lease}, {DestinationID: eventhook.DestinationID(a.ID), Max: 3, Lease: lease}})
	f.must(err)
	// All deliveries of a batch became due together, so any of them may be first.
	same(t, "claimed", len(list), 5)
	for _, d := range list {
		want := lease
		if d.SubscriptionID == b.ID {
			want = time.Minute
		}
		same(t, "the lease", d.Lease.Until, f.clock.Now().Add(want))
	}
	rest := f.claimDeliveries(f.other, 10, a, b, idle)
	same(t, "the rest", len(rest), 2)
	same(t, "all", ids(append(list, rest...)), ids(append(fromA, fromB...)))
	same(t, "claimed twice", len(f.claimDeliveries(f.other, 10, a, b, idle)), 0)

	old := f.publishTo(1, idle)
	f.clock.Advance(time.Second)
	f.publishTo(3, idle)
	same(t, "the first of a destination", f.claimDeliveries(f.db, 1, idle)[0].ID, old[0].ID)
}

// A claim takes deliveries in the order of their due times, whichever partition they are in.
func TestAClaimTakesDeliveriesInOrderOfDueTime(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	s := f.insertSubscription()
	retried := f.claimedDeliveries(1, s)[0]
	f.settleDeliveries(f.db, f.settlement(retried, eventhook.DeliveryFailed, func(s *outbound.DeliverySettlement) { s.DueAt = f.clock.Now().Add(day + time.Hour) }))
	f.clock.Advance(day)
	fresh := f.publishTo(1, s)[0]
	f.clock.Advance(2 * time.Hour)
	same(t, "the next day's", f.claimDeliveries(f.db, 1, s)[0].ID, fresh.ID)
	same(t, "then the retry", f.claimDeliveries(f.db, 1, s)[0].ID, retried.ID)
}

func TestAProbeTakesTriedDeliveriesFirst(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	s, other := f.insertSubscription(), f.insertSubscription()
	tried := f.claimedDeliveries(3, s)
	backlog := f.publishTo(5, s)
	f.publishTo(2, other)
	at := f.clock.Now()
	for i, in := range []time.Duration{time.Hour, 3 * time.Second, 2 * time.Second} {
		f.settleDeliveries(f.db, f.settlement(tried[i], eventhook.DeliveryFailed, func(s *outbound.DeliverySettlement) { s.DueAt = at.Add(in) }))
	}
	f.clock.Advance(10 * time.Second)
	claim := func() (ids []eventhook.DeliveryID) {
		list, err := f.db.ClaimDeliveries(t.Context(), []outbound.Claim{{DestinationID: eventhook.DestinationID(s.ID), Max: 1, Lease: lease, TriedFirst: true}, {DestinationID: eventhook.DestinationID(other.ID), Max: 1, Lease: lease}})
		f.must(err)
		for _, d := range list {
			same(t, "it has its event", d.Event != nil && d.Event.Body != nil, true)
			if d.SubscriptionID == s.ID {
				ids = append(ids, d.ID)
			}
		}
		return ids
	}
	same(t, "the oldest that is due", claim(), []eventhook.DeliveryID{tried[1].ID})
	same(t, "the next", claim(), []eventhook.DeliveryID{tried[2].ID})
	last := claim()
	same(t, "then untried ones", slices.ContainsFunc(backlog, func(d *eventhook.Delivery) bool { return d.ID == last[0] }), true)
	same(t, "of another destination", f.count("delivery", "destination_id = $1 AND status = 'acquired'", [16]byte(other.ID)), 2)
}

func TestAClaimIsBoundedByBytes(t *testing.T) {
	f := setUp(t)
	a, b := f.insertSubscription(), f.insertSubscription()
	var batch []*outbound.PublishItem
	for range 4 {
		batch = append(batch, f.newPublication("", a, b))
	}
	f.publish(f.db, batch...)
	f.exec(`UPDATE eventhook.event SET body_size = $1 WHERE origin = 'api'`, maxClaimBytes/3)
	list := f.claimDeliveries(f.db, 4, a, b)
	same(t, "claimed", len(list), 4) // the last one may exceed the bound
	of := map[eventhook.SubscriptionID]int{}
	for _, d := range list {
		of[d.SubscriptionID]++
	}
	same(t, "the destinations share the bytes", of, map[eventhook.SubscriptionID]int{a.ID: 2, b.ID: 2})
	same(t, "the rest", len(f.claimDeliveries(f.db, 4, a, b)), 4)
}

// TestNoDeliveryIsClaimedTwice has instances claim, settle, and fail to settle deliveries
// concurrently.
func TestNoDeliveryIsClaimedTwice(t *testing.T) {
	const destinations, each = 20, 600
	f := setUp(t)
	f.keep(Retention{})
	var subs []*eventhook.Subscription
	for range destinations {
		s := f.insertSubscription()
		subs = append(subs, s)
	}
	for range each {
		f.publish(f.db, f.newPublication("", subs...))
	}
	var mu sync.Mutex
	claims := map[eventhook.DeliveryID]int{}
	instance := func(db *DB) func() {
		return func() {
			for {
				list := f.claimDeliveries(db, 17, subs...)
				if len(list) == 0 {
					return
				}
				mu.Lock()
				for _, d := range list {
					claims[d.ID]++
				}
				mu.Unlock()
				var batch []*outbound.DeliverySettlement
				for _, d := range list {
					batch = append(batch, f.settlement(d, eventhook.DeliverySuccess))
				}
				f.settleDeliveries(db, batch...)
			}
		}
	}
	concurrently(instance(f.db), instance(f.other), instance(f.db), instance(f.other))
	for list := f.claimDeliveries(f.db, each, subs...); len(list) > 0; list = f.claimDeliveries(f.db, each, subs...) { // deliveries that were locked during the other claims
		for _, d := range list {
			claims[d.ID]++
			f.settleDeliveries(f.db, f.settlement(d, eventhook.DeliverySuccess))
		}
	}
	same(t, "deliveries that were claimed", len(claims), destinations*each)
	for id, n := range claims {
		if n != 1 {
			t.Errorf("%s was claimed %d times", id, n)
		}
	}
	same(t, "open deliveries", f.count("delivery", "due_at IS NOT NULL"), 0)
	same(t, "attempts", queryValue[int](f, `SELECT sum(attempts)::int FROM eventhook.delivery`), destinations*each)
}

func TestAnExpiredDeliveryLeaseIsLost(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	d := f.claimedDeliveries(1, s)[0]
	f.clock.Advance(lease - time.Second)
	same(t, "claimed under a lease", len(f.claimDeliveries(f.other, 1, s)), 0)
	f.clock.Advance(time.Second)
	again := f.claimDeliveries(f.other, 1, s)
	same(t, "claimed after it", len(again), 1)
	late := f.settlement(d, eventhook.DeliveryDead)
	lost, err := f.db.SettleDeliveries(t.Context(), []*outbound.DeliverySettlement{late})
	f.must(err)
	same(t, "lost", lost, []*outbound.DeliverySettlement{late})
	same(t, "dead deliveries that were counted", f.count("subscription_health", "dead_in_row > 0"), 0)
	f.must(f.db.ReleaseDeliveries(t.Context(), []*eventhook.Delivery{d}))
	got, attempts := f.delivery(d.ID)
	same(t, "its state", got.Status, eventhook.DeliveryAcquired)
	same(t, "its attempts", len(attempts), 0)
	f.settleDeliveries(f.other, f.settlement(again[0], eventhook.DeliverySuccess))
	lost, err = f.other.SettleDeliveries(t.Context(), []*outbound.DeliverySettlement{f.settlement(again[0], eventhook.DeliverySuccess)})
	f.must(err)
	same(t, "lost when it is settled again", len(lost), 1)
	_, attempts = f.delivery(d.ID)
	same(t, "attempts in the end", len(attempts), 1)
}

func TestReleasedDeliveriesKeepTheirState(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	list := f.claimedDeliveries(2, s)
	f.settleDeliveries(f.db, f.settlement(list[0], eventhook.DeliveryFailed))
	f.clock.Advance(time.Second)
	list[0] = f.claimDeliveries(f.db, 1, s)[0]
	f.must(f.db.ReleaseDeliveries(t.Context(), list))
	same(t, "states", f.counts(`SELECT status, count(*) FROM eventhook.delivery WHERE due_at = $1 GROUP BY 1`, f.clock.Now()),
		map[string]int{"failed": 1, "pending": 1})
	same(t, "claimed again", len(f.claimDeliveries(f.other, 9, s)), 2)
}

func TestSettledDeliveries(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	list := f.claimedDeliveries(4, s)
	begun := f.clock.Now()
	f.clock.Advance(50 * time.Millisecond)
	retried := f.settlement(list[1], eventhook.DeliveryFailed)
	stale := f.settlement(list[3], eventhook.DeliveryDead, func(s *outbound.DeliverySettlement) { s.Attempt, s.LastError = nil, "older than 24 h" })
	f.settleDeliveries(f.db, f.settlement(list[0], eventhook.DeliverySuccess), retried, f.settlement(list[2], eventhook.DeliveryDead), stale)
	at := f.clock.Now()
	for i, want := range []eventhook.Delivery{
		{Status: eventhook.DeliverySuccess, Attempts: 1, StatusCode: 200, CompletedAt: &at},
		{Status: eventhook.DeliveryFailed, Attempts: 1, RetryCount: 1, StatusCode: 503, LastError: "the receiver answered 503", NextAttemptAt: new(at.Add(time.Second))},
		{Status: eventhook.DeliveryDead, Attempts: 1, RetryCount: 1, StatusCode: 503, LastError: "the receiver answered 503", CompletedAt: &at},
		{Status: eventhook.DeliveryDead, RetryCount: 1, LastError: "older than 24 h", CompletedAt: &at},
	} {
		d := list[i]
		want.ID, want.TenantID, want.SubscriptionID, want.EventID, want.EventType = d.ID, f.tenant, s.ID, d.EventID, "payment.made"
		want.DestinationID = eventhook.DestinationID(s.ID)
		got, attempts := f.delivery(d.ID)
		same(t, fmt.Sprintf("delivery %d", i), utc(got), want)
		same(t, fmt.Sprintf("its attempts, %d", i), len(attempts), want.Attempts)
	}
	f.clock.Advance(time.Second)
	again := f.claimDeliveries(f.other, 9, s)
	same(t, "claimed for its retry", len(again), 1)
	same(t, "its retries", again[0].RetryCount, 1)
	f.settleDeliveries(f.other, f.settlement(again[0], eventhook.DeliverySuccess))
	got, attempts := f.delivery(list[1].ID)
	same(t, "its last error", got.LastError, "")
	same(t, "its attempts", attempts, []eventhook.Attempt{
		{StartedAt: begun.Add(50 * time.Millisecond), Duration: 12 * time.Millisecond, StatusCode: 503, ErrorClass: eventhook.ErrorHTTP5xx, Error: "the receiver answered 503", Excerpt: "<busy>"},
		{StartedAt: begun.Add(1050 * time.Millisecond), Duration: 12 * time.Millisecond, StatusCode: 200, Excerpt: "ok"},
	})
}

func TestADeliveryThatEndsUnsentKeepsItsLastStatusCode(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	f.settleDeliveries(f.db, f.settlement(f.claimedDeliveries(1, s)[0], eventhook.DeliveryFailed))
	f.clock.Advance(time.Second)
	d := f.claimDeliveries(f.db, 1, s)[0]
	f.settleDeliveries(f.db, f.settlement(d, eventhook.DeliveryDead, func(s *outbound.DeliverySettlement) { s.Attempt, s.LastError = nil, "too old" }))
	got, _ := f.delivery(d.ID)
	same(t, "it", []any{got.StatusCode, got.Attempts, got.LastError}, []any{503, 1, "too old"})
}

func TestARefusedSettlementDoesNotBlockTheRest(t *testing.T) {
	f := setUp(t)
	list := f.claimedDeliveries(5, f.insertSubscription())
	var batch []*outbound.DeliverySettlement
	for _, d := range list {
		batch = append(batch, f.settlement(d, eventhook.DeliverySuccess))
	}
	batch[3].Status = "nonsense"
	lost, err := f.db.SettleDeliveries(t.Context(), batch)
	f.must(err)
	same(t, "returned", lost, batch[3:4])
	same(t, "settled", f.count("delivery", "status = 'success'"), 4)
}

// The first try of the batch finds the lost lease and is rolled back.
func TestALostSettlementOfARefusedBatchIsReturnedOnce(t *testing.T) {
	f := setUp(t)
	list := f.claimedDeliveries(3, f.insertSubscription())
	f.exec(`CREATE FUNCTION eventhook.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused' USING ERRCODE = '22000'; END $$`)
	f.exec(`CREATE TRIGGER refuse BEFORE INSERT ON eventhook.event_default FOR EACH ROW WHEN (NEW.event_type = '` + deliveryFailedType + `')
		EXECUTE FUNCTION eventhook.refuse()`)
	list[2].Lease.Token++
	lost, err := f.db.SettleDeliveries(t.Context(), []*outbound.DeliverySettlement{f.settlement(list[0], eventhook.DeliveryDead),
		f.settlement(list[1], eventhook.DeliverySuccess), f.settlement(list[2], eventhook.DeliverySuccess)})
	f.must(err)
	ids := []eventhook.DeliveryID{}
	for _, s := range lost {
		ids = append(ids, s.Delivery.ID)
	}
	same(t, "returned", ids, []eventhook.DeliveryID{list[0].ID, list[2].ID})
	same(t, "settled", f.count("delivery", "status = 'success'"), 1)
}

// utc returns a delivery with its times in UTC.
func utc(d eventhook.Delivery) eventhook.Delivery {
	for _, at := range []**time.Time{&d.NextAttemptAt, &d.CompletedAt, &d.RestartedAt} {
		if *at != nil {
			*at = new((*at).UTC())
		}
	}
	return d
}

func TestAHistoryIsBoundedAndHoldsAnyText(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	d := f.claimedDeliveries(1, s)[0]
	rubbish := "\x00\xff\n<\"" + string(make([]byte, 3000))
	for n := range 60 {
		f.settleDeliveries(f.db, f.settlement(d, eventhook.DeliveryFailed, func(s *outbound.DeliverySettlement) {
			s.Attempt.Excerpt, s.Attempt.Error, s.LastError, s.DueAt = rubbish, rubbish, rubbish, f.clock.Now()
			s.Attempt.StatusCode = 400 + n
		}))
		d = f.claimDeliveries(f.db, 1, s)[0]
	}
	got, attempts := f.delivery(d.ID)
	same(t, "attempts", got.Attempts, 60)
	same(t, "the last attempt of the history", attempts[len(attempts)-1].StatusCode, 459)
	if n := queryValue[int](f, `SELECT max(octet_length(history)) FROM eventhook.delivery`); n > 96<<10 || len(attempts) < 2 {
		t.Errorf("the history has %d bytes and %d attempts, want at most 96 KiB and some", n, len(attempts))
	}
	same(t, "the bytes of an excerpt", len(attempts[0].Excerpt) <= eventhook.MaxExcerpt+3, true)
}

func (f *fixture) deadInRow(s *eventhook.Subscription) int {
	f.Helper()
	return queryValue[int](f, `SELECT coalesce((SELECT dead_in_row FROM eventhook.subscription_health WHERE subscription_id = $1), 0)`, [16]byte(s.ID))
}

// TestDeadDeliveriesInARow settles batches that are written as letters: d for a dead delivery,
// s for a success, f for a retry, u for a delivery that was never sent, D and S for test
// deliveries, o for a dead delivery that reports dead deliveries of its own subscription, and
// O for one that reports those of another subscription.
func TestDeadDeliveriesInARow(t *testing.T) {
	f := setUp(t)
	stranger := f.insertSubscription()
	for _, c := range []struct {
		claim    string
		batches  []string
		want     int
		disabled bool
	}{
		{"add up", []string{"dd", "d"}, 3, false},
		{"start at 0 after a success", []string{"dd", "s", "d"}, 1, false},
		{"in the order of a batch", []string{"dd", "dsd"}, 1, false},
		{"are 0 after a success", []string{"dd", "dds"}, 0, false},
		{"retries do not count", []string{"ddf"}, 2, false},
		{"tests do not count", []string{"ddD", "S", "D"}, 2, false},
		{"deliveries that were never sent do not count", []string{"du", "uuuuuuu", "u"}, 1, false},
		{"five disable", []string{"dd", "ddd"}, 5, true},
		{"five disable even before a success", []string{"dd", "ddds"}, 0, true},
		{"five disable between two successes", []string{"dd", "sddddds"}, 0, true},
		{"four do not disable", []string{"sdddd", "s"}, 0, false},
		{"reports about the own failures do not count", []string{"dodo", "dod"}, 4, false},
		{"reports about other failures count", []string{"dOdOd"}, 5, true},
	} {
		s := f.insertSubscription()
		for _, letters := range c.batches {
			var batch []*outbound.DeliverySettlement
			for i, d := range f.claimedDeliveries(len(letters), s) {
				status := map[byte]eventhook.DeliveryStatus{'d': eventhook.DeliveryDead, 's': eventhook.DeliverySuccess, 'f': eventhook.DeliveryFailed,
					'D': eventhook.DeliveryDead, 'S': eventhook.DeliverySuccess, 'u': eventhook.DeliveryDead,
					'o': eventhook.DeliveryDead, 'O': eventhook.DeliveryDead}[letters[i]]
				if of := map[byte]eventhook.SubscriptionID{'o': s.ID, 'O': stranger.ID}[letters[i]]; !of.IsZero() {
					data, err := json.Marshal(newFailedDeliveries(announcedObject{"subscription", of.String(), "x"}, []*outbound.DeliverySettlement{f.settlement(d, status)}))
					f.must(err)
					d.EventType, d.Event = deliveryFailedType, &eventhook.Event{Payload: eventhook.Payload{Body: data}}
				}
				batch = append(batch, f.settlement(d, status, func(s *outbound.DeliverySettlement) {
					if letters[i] == 'u' {
						s.Attempt = nil
					}
					s.DeadInRow, s.IsUncounted = 5, letters[i] == 'D' || letters[i] == 'S'
				}))
			}
			f.settleDeliveries(f.db, batch...)
		}
		same(t, c.claim+": dead in a row", f.deadInRow(s), c.want)
		same(t, c.claim+": disabled", f.count("subscription", "id = $1 AND status = 'disabled'", [16]byte(s.ID)) == 1, c.disabled)
	}
	s := f.insertSubscription()
	f.settleDeliveries(f.db, f.settlement(f.claimedDeliveries(1, s)[0], eventhook.DeliveryDead, func(s *outbound.DeliverySettlement) { s.DeadInRow = 0 }))
	same(t, "a limit of 0 never disables", f.count("subscription", "id = $1 AND status = 'active'", [16]byte(s.ID)), 1)
}

// A transaction that changes several subscriptions locks them and then their health. A settle
// must use the same order.
func TestSettlingLocksSubscriptionsBeforeTheirHealth(t *testing.T) {
	f := setUp(t)
	recovering, failing := f.insertSubscription(), f.insertSubscription()
	f.settleDeliveries(f.db, f.settlement(f.claimedDeliveries(1, recovering)[0], eventhook.DeliveryDead))
	batch := []*outbound.DeliverySettlement{f.settlement(f.claimedDeliveries(1, recovering)[0], eventhook.DeliverySuccess), f.settlement(f.claimedDeliveries(1, failing)[0], eventhook.DeliveryDead)}
	changing, err := f.other.work.Begin(t.Context())
	f.must(err)
	_, err = changing.Exec(t.Context(), lockSubscriptionsSQL, [][16]byte{recovering.ID, failing.ID})
	f.must(err)
	concurrently(
		func() { f.settleDeliveries(f.db, batch...) },
		func() {
			f.waitForBlocked(1)
			_, err := changing.Exec(t.Context(), lockHealthSQL+" NOWAIT", [][16]byte{recovering.ID})
			f.must(errors.Join(err, changing.Rollback(t.Context())))
		})
	same(t, "dead in a row", []int{f.deadInRow(recovering), f.deadInRow(failing)}, []int{0, 1})
}

func TestAGoneResponseDisablesAtOnce(t *testing.T) {
	f := setUp(t)
	s, test := f.insertSubscription(), f.insertSubscription()
	before := f.generation()
	gone := func(s *outbound.DeliverySettlement) { s.Disable = "the receiver answered 410 Gone" }
	var log strings.Builder
	settler := f.open(func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	f.settleDeliveries(settler, f.settlement(f.claimedDeliveries(1, s)[0], eventhook.DeliveryDead, gone),
		f.settlement(f.claimedDeliveries(1, test)[0], eventhook.DeliveryDead, gone, func(s *outbound.DeliverySettlement) { s.IsUncounted = true }))
	same(t, "disabled", f.counts(`SELECT disabled_reason, count(*) FROM eventhook.subscription WHERE status = 'disabled' GROUP BY 1`),
		map[string]int{"the receiver answered 410 Gone": 1})
	same(t, "generations", f.generation(), before+1)
	if !strings.Contains(log.String(), "subscription="+s.ID.String()) || strings.Contains(log.String(), test.ID.String()) {
		t.Errorf("logged %q, want the disabled subscription", log.String())
	}
}

func TestASuccessWithoutFailuresWritesNoCount(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	f.exec(`INSERT INTO eventhook.subscription_health (subscription_id) VALUES ($1)`, [16]byte(s.ID))
	const version = `SELECT xmin::text FROM eventhook.subscription_health`
	before := queryValue[string](f, version)
	f.settleDeliveries(f.db, f.settlement(f.claimedDeliveries(1, s)[0], eventhook.DeliverySuccess))
	same(t, "the count was written by", queryValue[string](f, version), before)
}

func TestWatchersSeeEventsAboutDeadDeliveries(t *testing.T) {
	f := setUp(t)
	f.subscription(named("told", "webhook.disabled"))
	d := f.claimedDeliveries(1, f.insertSubscription())[0]
	f.pushing(f.db)
	w, here := f.watch(f.db, f.tenant), f.db.DeliveriesWake()
	f.settleDeliveries(f.db, f.settlement(d, eventhook.DeliveryDead, func(s *outbound.DeliverySettlement) { s.Disable = "gone" }))
	wantClosed(t, "this instance's dispatcher", here)
	received := map[string]bool{}
	for len(received) < 2 {
		for _, e := range next(t, w.updates).Events {
			received[e.EventType] = true
		}
	}
	same(t, "event types", received, map[string]bool{"webhook.disabled": true, deliveryFailedType: true})
}

func TestDeadDeliveriesAreReportedToTheTenant(t *testing.T) {
	f := setUp(t)
	s, other, quiet := f.insertSubscription(), f.insertSubscription(), f.insertSubscription()
	list := append(f.claimedDeliveries(3, s), f.claimedDeliveries(1, other)...)
	loop := f.claimedDeliveries(1, quiet)[0]
	loop.EventType = deliveryFailedType
	test := f.claimedDeliveries(1, quiet)[0]
	f.settleDeliveries(f.db, f.settlement(list[0], eventhook.DeliveryDead), f.settlement(list[1], eventhook.DeliverySuccess), f.settlement(list[2], eventhook.DeliveryDead),
		f.settlement(list[3], eventhook.DeliveryDead), f.settlement(loop, eventhook.DeliveryDead),
		f.settlement(test, eventhook.DeliveryDead, func(s *outbound.DeliverySettlement) { s.IsUncounted = true }))
	rows, err := f.db.Events(t.Context(), f.tenant, eventhook.EventFilter{EventType: deliveryFailedType, Limit: 10})
	f.must(err)
	reported := map[string]failedDeliveries{}
	for _, e := range rows {
		payloads, err := f.db.Payloads(t.Context(), []eventhook.EventID{e.ID})
		f.must(err)
		var data failedDeliveries
		f.must(json.Unmarshal(payloads[e.ID].Body, &data))
		reported[data.Subscription.ID] = data
	}
	same(t, "reported", reported, map[string]failedDeliveries{
		s.ID.String(): {announcedObject{"subscription", s.ID.String(), "billing"}, 2, []eventhook.DeliveryID{list[0].ID, list[2].ID},
			[]string{"payment.made"}, "the receiver answered 503"},
		other.ID.String(): {announcedObject{"subscription", other.ID.String(), "billing"}, 1, []eventhook.DeliveryID{list[3].ID},
			[]string{"payment.made"}, "the receiver answered 503"},
	})
}

func TestDeliveriesOfADeletedSubscriptionAreSettledAndAbandoned(t *testing.T) {
	f := setUp(t)
	s, stays := f.insertSubscription(), f.insertSubscription()
	f.publishTo(25, s)
	f.publishTo(1, stays)
	claimed := f.claimDeliveries(f.db, 3, s)
	f.exec(`DELETE FROM eventhook.subscription WHERE id = $1`, [16]byte(s.ID))
	f.settleDeliveries(f.db, f.settlement(claimed[0], eventhook.DeliveryDead), f.settlement(claimed[1], eventhook.DeliverySuccess))
	abandon := func(s *eventhook.Subscription) int {
		t.Helper()
		n, err := f.db.AbandonDeliveries(t.Context(), eventhook.Destination{TenantID: s.TenantID, SubscriptionID: s.ID}, "the subscription was deleted", 10)
		f.must(err)
		return n
	}
	same(t, "abandoned", []int{abandon(s), abandon(s), abandon(s), abandon(s)}, []int{10, 10, 2, 0})
	f.clock.Advance(lease)
	same(t, "after the lease expired", abandon(s), 1)
	same(t, "of an existing subscription", abandon(stays), 0)
	same(t, "the last error", f.count("delivery", "status = 'dead' AND last_error = 'the subscription was deleted'"), 23)
	same(t, "open deliveries", f.count("delivery", "due_at IS NOT NULL"), 1)
	same(t, "system events", f.count("event", "origin = 'system'"), 0)
}

// TestSettlingIsOneStatement counts round trips that go through the pool. The batch of a
// settle runs on a connection of its own and is not among them.
func TestSettlingIsOneStatement(t *testing.T) {
	f := setUp(t)
	list := f.claimedDeliveries(20, f.insertSubscription())
	trips := f.countTrips()
	var batch []*outbound.DeliverySettlement
	for i, d := range list {
		batch = append(batch, f.settlement(d, []eventhook.DeliveryStatus{eventhook.DeliverySuccess, eventhook.DeliveryFailed}[i%2]))
	}
	before := trips.Load()
	f.settleDeliveries(f.db, batch...)
	same(t, "further round trips", trips.Load()-before, int64(0))
	same(t, "transactions", queryValue[int](f, `SELECT count(DISTINCT xmin::text) FROM eventhook.delivery`), 1)
}

func TestDeliveryQueueAgeIgnoresDeliveriesThatAreNotSent(t *testing.T) {
	f := setUp(t)
	age := func() time.Duration {
		t.Helper()
		got, err := ageDelivery(t, f.db)
		f.must(err)
		return got
	}
	paused, agents, s := f.insertSubscription(func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionPaused }), f.insertSubscription(), f.insertSubscription()
	f.exec(`UPDATE eventhook.subscription SET settings = '{"target_labels": ["env:prod"]}' WHERE id = $1`, [16]byte(agents.ID))
	f.publishTo(1, paused)
	f.publishTo(1, agents)
	f.clock.Advance(time.Hour)
	same(t, "without a delivery that the gateway sends", age(), time.Duration(0))
	f.publishTo(1, s)
	f.clock.Advance(time.Minute)
	f.publishTo(1, s)
	f.clock.Advance(time.Second)
	same(t, "of the oldest", age(), time.Minute+time.Second+time.Millisecond)
	f.claimDeliveries(f.db, 9, s)
	same(t, "when all are leased", age(), time.Duration(0))
}

// A recovered delivery is due at the time of its event, and a held one since the outage.
func TestDeliveryQueueAgeCountsFromTheEndOfAnOutage(t *testing.T) {
	o := newOutage(t)
	age := func() time.Duration {
		t.Helper()
		got, err := ageDelivery(t, o.db)
		o.must(err)
		return got
	}
	o.clock.Advance(day)
	same(t, "while failures disable the subscription", age(), time.Duration(0))
	o.step(o.other)
	o.clock.Advance(time.Second)
	same(t, "held deliveries after the outage", age(), time.Second)
	o.deliver(o.storedSubscription(o.of.ID), eventhook.DeliverySuccess)
	o.replaySteps(o.replayWorker(o.db))
	o.clock.Advance(time.Second)
	o.exec(`UPDATE eventhook.subscription_health SET outage_ended_at = NULL`)
	same(t, "recovered deliveries", age(), time.Second)
}

func TestReserveSends(t *testing.T) {
	f := setUp(t)
	s, fast := f.insertSubscription(), f.insertSubscription()
	gone := &eventhook.Subscription{ID: eventhook.NewID[eventhook.Subscription](noon)}
	pace := func(db *DB, of *eventhook.Subscription, count, rate int) time.Duration {
		t.Helper()
		at, err := db.ReserveSends(t.Context(), []outbound.SendReservation{{DestinationID: eventhook.DestinationID(of.ID), Count: count, PerSecond: rate}})
		f.must(err)
		return at[0].Sub(f.clock.Now())
	}
	same(t, "the first", pace(f.db, s, 5, 10), time.Duration(0))
	same(t, "the next, of another instance", pace(f.other, s, 1, 10), 500*time.Millisecond)
	same(t, "another's", pace(f.db, fast, 1, 1000), time.Duration(0))
	f.clock.Advance(500 * time.Millisecond)
	same(t, "a moment later", pace(f.db, s, 1, 10), 100*time.Millisecond)
	f.clock.Advance(time.Hour)
	same(t, "after a pause, which accumulates nothing", []time.Duration{pace(f.db, s, 1, 10), pace(f.db, s, 1, 10)}, []time.Duration{0, 100 * time.Millisecond})
	same(t, "of a deleted subscription", pace(f.db, gone, 9, 1), time.Duration(0))
	f.clock.Advance(time.Hour)
	at, err := f.db.ReserveSends(t.Context(), []outbound.SendReservation{{DestinationID: eventhook.DestinationID(s.ID), Count: 2, PerSecond: 10},
		{DestinationID: eventhook.DestinationID(fast.ID), Count: 3, PerSecond: 100}, {DestinationID: eventhook.DestinationID(s.ID), Count: 2, PerSecond: 10}})
	f.must(err)
	same(t, "several at once", []time.Duration{at[0].Sub(f.clock.Now()), at[1].Sub(f.clock.Now()), at[2].Sub(f.clock.Now())},
		[]time.Duration{0, 0, 200 * time.Millisecond})
}

// TestTheRateHoldsAcrossInstances has four instances reserve sends one by one, concurrently:
// all times must differ.
func TestTheRateHoldsAcrossInstances(t *testing.T) {
	const instances, each = 4, 50
	f := setUp(t)
	s := f.insertSubscription()
	var mu sync.Mutex
	seen := map[time.Time]bool{}
	var acts []func()
	for i := range instances {
		acts = append(acts, func() {
			for range each {
				at, err := []*DB{f.db, f.other}[i%2].ReserveSends(t.Context(), []outbound.SendReservation{{DestinationID: eventhook.DestinationID(s.ID), Count: 1, PerSecond: 100}})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				seen[at[0]] = true
				mu.Unlock()
			}
		})
	}
	concurrently(acts...)
	same(t, "different times", len(seen), instances*each)
	next, err := f.db.ReserveSends(t.Context(), []outbound.SendReservation{{DestinationID: eventhook.DestinationID(s.ID), Count: 1, PerSecond: 100}})
	f.must(err)
	same(t, "the last is", next[0].Sub(f.clock.Now()), instances*each*10*time.Millisecond)
}

func TestOldDeliveriesExpireUnsent(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	s := f.insertSubscription(func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionPaused })
	old := f.publishTo(4, s)
	f.clock.Advance(11 * time.Hour) // the same day
	old = append(old, f.publishTo(1, s)...)
	f.clock.Advance(14 * time.Hour) // the next
	fresh := f.publishTo(1, s)[0]
	expire := func(want int) {
		t.Helper()
		n, err := f.db.ExpireDeliveries(t.Context(), day)
		f.must(err)
		same(t, "expired", n, want)
	}
	expire(0) // 25 hours later, but less than 24 hours after the end of the day
	leased := f.claimDeliveries(f.other, 1, s)[0]
	dead, anew := old[1], old[2]
	for _, d := range []**eventhook.Delivery{&dead, &anew} {
		if (*d).ID == leased.ID {
			*d = old[3]
		}
	}
	f.settleDeliveries(f.other, f.settlement(leased, eventhook.DeliveryFailed, func(s *outbound.DeliverySettlement) { s.DueAt = f.clock.Now().Add(12 * time.Hour) }))
	f.exec(`UPDATE eventhook.delivery SET restarted_at = $2 WHERE id = $1`, [16]byte(anew.ID), f.clock.Now())
	f.clock.Advance(11 * time.Hour)
	expire(3) // of five, one is due later and one was restarted
	expire(0)
	got, _ := f.delivery(dead.ID)
	same(t, "one of them", []any{got.Status, got.LastError, got.CompletedAt.UTC()}, []any{eventhook.DeliveryDead, "older than 24 h", f.clock.Now()})
	f.clock.Advance(time.Hour)
	expire(1)
	f.clock.Advance(13 * time.Hour)
	expire(1)
	got, _ = f.delivery(anew.ID)
	same(t, "the restarted one", got.Status, eventhook.DeliveryDead)
	got, _ = f.delivery(fresh.ID)
	same(t, "the next day's", got.Status, eventhook.DeliveryPending)
	n, err := f.db.ExpireDeliveries(t.Context(), 0)
	f.must(err)
	same(t, "without a limit", n, 0)
}

func TestAStalePlanIsReplaced(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	e := f.leasedEvents(1)[0]
	a := f.publishAction("payment.made", "k", `{"n":1}`, s)
	p := a.Effect.Publication
	plan := f.plan(e, a, f.executionAction(eventhook.Task, ""))
	plan.Generation--
	unsettled, err := f.db.SettleEvents(t.Context(), []*effects.Settlement{plan})
	f.must(err)
	same(t, "unsettled, and stale", []any{len(unsettled), plan.IsStale}, []any{1, true})
	same(t, "written", []int{f.count("delivery", "true"), f.count("execution", "true"), f.count("event", "origin = 'route'")}, []int{0, 0, 0})
	plan.Generation++
	p.Deliveries[0].Lease.Until = f.clock.Now().Add(lease)
	p.Envelope = &eventhook.Envelope{Source: "crm"}
	f.settle(f.db, plan)
	got, _ := f.delivery(p.Deliveries[0].ID)
	same(t, "the delivery", []any{got.Status, got.EventID, got.EventType, got.SubscriptionID}, []any{eventhook.DeliveryAcquired, p.ID, "payment.made", s.ID})
	same(t, "its lease", p.Deliveries[0].Lease.Token, int64(1))
	f.settleDeliveries(f.db, f.settlement(p.Deliveries[0], eventhook.DeliverySuccess))
	same(t, "the envelope", queryValue[string](f, `SELECT envelope::text FROM eventhook.event WHERE id = $1`, [16]byte(p.ID)), `{"source":"crm"}`)

	f.settle(f.db, f.plan(f.leasedEvents(1)[0], f.publishAction("payment.made", "k", `{}`, s)))
	same(t, "deliveries when the key was seen", f.count("delivery", "true"), 1)
}

// cancelled returns a context that has ended.
func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
