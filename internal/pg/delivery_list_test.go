package pg

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

func (f *fixture) deliveries(tenant eventhook.TenantID, filter eventhook.DeliveryFilter) []eventhook.DeliveryID {
	f.Helper()
	list, err := f.db.Deliveries(f.Context(), tenant, filter)
	f.must(err)
	ids := []eventhook.DeliveryID{}
	for _, d := range list {
		ids = append(ids, d.ID)
	}
	return ids
}

// TestDeliveryListsMatchTheirFilters compares every combination of filters with the same
// selection made in memory.
func TestDeliveryListsMatchTheirFilters(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	a, b := f.insertSubscription(), f.insertSubscription()
	var all []eventhook.Delivery
	var events []eventhook.EventID
	for i := range 20 {
		f.clock.Advance(2 * time.Hour)
		p := f.newPublication("", a, b)
		f.publish(f.db, p)
		events = append(events, p.Event.ID)
		for k, d := range f.claimDeliveries(f.db, 9, a, b) {
			switch (i + k) % 5 {
			case 0:
				f.settleDeliveries(f.db, f.settlement(d, eventhook.DeliverySuccess))
			case 1:
				f.settleDeliveries(f.db, f.settlement(d, eventhook.DeliveryDead))
			case 2:
				f.settleDeliveries(f.db, f.settlement(d, eventhook.DeliveryFailed, func(s *outbound.DeliverySettlement) { s.DueAt = noon.Add(30 * day) }))
			case 3:
				f.must(f.db.ReleaseDeliveries(t.Context(), []*eventhook.Delivery{d}))
				f.exec(`UPDATE eventhook.delivery SET due_at = $1 WHERE due_at = $2 AND status = 'pending'`, noon.Add(31*day), f.clock.Now())
			case 4:
				f.exec(`UPDATE eventhook.delivery SET due_at = $1 WHERE id = $2`, noon.Add(32*day), [16]byte(d.ID))
			}
		}
		for _, d := range p.Deliveries {
			got, _ := f.delivery(d.ID)
			all = append(all, got)
		}
	}
	slices.SortFunc(all, func(x, y eventhook.Delivery) int { return -cmp.Compare(string(x.ID[:]), string(y.ID[:])) })
	for _, s := range []eventhook.SubscriptionID{{}, a.ID, b.ID} {
		for _, status := range append([]eventhook.DeliveryStatus{"", "lost"}, eventhook.DeliveryStatuses...) {
			for _, e := range []eventhook.EventID{{}, events[3], events[7]} {
				for _, bound := range []time.Time{{}, noon.Add(24 * time.Hour)} {
					for _, before := range []eventhook.DeliveryID{{}, all[20].ID} {
						filter := eventhook.DeliveryFilter{SubscriptionID: s, EventID: e, Status: status, CreatedBefore: bound, Before: before, Limit: 4}
						want := []eventhook.DeliveryID{}
						for _, d := range all {
							if (s.IsZero() || d.SubscriptionID == s) && (status == "" || d.Status == status) && (e.IsZero() || d.EventID == e) &&
								(bound.IsZero() || d.ID.Time().Before(bound)) && (before.IsZero() || string(d.ID[:]) < string(before[:])) && len(want) < 4 {
								want = append(want, d.ID)
							}
						}
						same(t, fmt.Sprintf("%+v", filter), f.deliveries(f.tenant, filter), want)
					}
				}
			}
		}
	}
	same(t, "after a time", len(f.deliveries(f.tenant, eventhook.DeliveryFilter{CreatedAfter: noon.Add(36 * time.Hour), Limit: 100})), 4)
	umbrella := f.secondTenant()
	for _, filter := range []eventhook.DeliveryFilter{{}, {SubscriptionID: a.ID}, {EventID: events[3]}, {Status: "dead"}, {SubscriptionID: a.ID, Status: "dead"}, {SubscriptionID: a.ID, Status: "pending"}, {Status: "pending"}} {
		filter.Limit = 10
		same(t, fmt.Sprintf("another tenant's: %+v", filter), len(f.deliveries(umbrella, filter)), 0)
	}
	_, _, err := f.db.Delivery(t.Context(), umbrella, all[0].ID)
	wantKind(t, "another tenant's", err, eventhook.KindNotFound)
}

// TestManyOpenDeliveriesAreListedByID has more open deliveries than a list sorts.
func TestManyOpenDeliveriesAreListedByID(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	f.insertDueDeliveries(s, 10_050)
	for _, filter := range []eventhook.DeliveryFilter{{Status: "pending"}, {Status: "pending", SubscriptionID: s.ID}} {
		filter.Limit = 3
		got := f.deliveries(f.tenant, filter)
		var want []eventhook.DeliveryID
		for i := range 3 {
			want = append(want, queryValue[[16]byte](f, `SELECT id FROM eventhook.delivery ORDER BY id DESC OFFSET $1 LIMIT 1`, i))
		}
		same(t, "the newest", got, want)
	}
	same(t, "none is acquired", f.deliveries(f.tenant, eventhook.DeliveryFilter{Status: "acquired", Limit: 3}), []eventhook.DeliveryID{})
}

// insertDueDeliveries inserts n due deliveries to a subscription. Their events do not exist.
func (f *fixture) insertDueDeliveries(s *eventhook.Subscription, n int) {
	f.Helper()
	f.exec(`INSERT INTO eventhook.delivery (id, tenant_id, destination_id, event_id, due_at, status, event_type)
		SELECT overlay(gen_random_uuid()::text PLACING substr($3, 1, 13) FROM 1)::uuid, $1, $2, $1, $4::timestamptz, 'pending', 'push' FROM generate_series(1, $5::int)`,
		[16]byte(f.tenant), [16]byte(s.ID), eventhook.FirstID[eventhook.Event](f.clock.Now()).String(), f.clock.Now(), n)
}

// TestDeliveryListsReadFewRows checks the rows that the plan of a list reads and filters out.
func TestDeliveryListsReadFewRows(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	f.fillTables(20_000, 0)
	quiet := f.insertSubscription()
	f.exec(`UPDATE eventhook.delivery SET destination_id = $1, status = 'dead', last_error = 'x' WHERE id IN (SELECT id FROM eventhook.delivery ORDER BY id LIMIT 3)`, [16]byte(quiet.ID))
	f.exec(`VACUUM ANALYZE eventhook.delivery`)
	removed := regexp.MustCompile(`Rows Removed by Filter: (\d+)`)
	busy := eventhook.SubscriptionID(f.tenant)
	for claim, filter := range map[string]eventhook.DeliveryFilter{
		"dead":                     {Status: "dead"},
		"failed":                   {Status: "failed"},
		"pending":                  {Status: "pending"},
		"acquired":                 {Status: "acquired"},
		"a quiet subscription":     {SubscriptionID: quiet.ID},
		"its dead":                 {SubscriptionID: quiet.ID, Status: "dead"},
		"its pending":              {SubscriptionID: quiet.ID, Status: "pending"},
		"a busy one's dead":        {SubscriptionID: busy, Status: "dead"},
		"a busy one's few":         {SubscriptionID: busy},
		"a busy one's delivered":   {SubscriptionID: busy, Status: "success"},
		"an event without any":     {EventID: eventhook.NewID[eventhook.Event](noon.Add(-time.Hour))},
		"a time when nothing came": {CreatedAfter: noon.Add(time.Minute)},
	} {
		filter.Limit = 50
		if plan := f.deliveryListPlan(filter, true); removed.MatchString(plan) {
			t.Errorf("%s: reads rows that it does not return:\n%s", claim, plan)
		}
	}
}

func TestDeliveriesOfAnEvent(t *testing.T) {
	f := setUp(t)
	var subs []*eventhook.Subscription
	for range 5 {
		subs = append(subs, f.insertSubscription())
	}
	p, other := f.newPublication("", subs...), f.newPublication("", subs...)
	f.publish(f.db, p, other)
	list, count, err := f.db.EventDeliveries(t.Context(), f.tenant, p.Event.ID, 3)
	f.must(err)
	same(t, "listed and counted", []int{len(list), count}, []int{3, 5})
	for _, d := range list {
		same(t, "its event", d.EventID, p.Event.ID)
	}
	_, count, err = f.db.EventDeliveries(t.Context(), f.secondTenant(), p.Event.ID, 3)
	f.must(err)
	same(t, "another tenant's", count, 0)
}

func TestSubscriptionStats(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	stats := func() eventhook.SubscriptionStats {
		t.Helper()
		got, err := f.db.SubscriptionStats(t.Context(), f.tenant, s.ID)
		f.must(err)
		return got
	}
	same(t, "before the first", stats(), eventhook.SubscriptionStats{})
	count := func(db *DB, slot int, ago time.Duration, delivered, failed, dead int64) {
		f.must(db.AddSubscriptionCounts(t.Context(), slot, []eventhook.SubscriptionCount{{SubscriptionID: s.ID, At: noon.Add(-ago),
			Delivered: delivered, Failed: failed, Dead: dead, Duration: time.Duration(delivered+failed) * 20 * time.Millisecond}}))
	}
	count(f.db, 1, 0, 5, 1, 1)
	count(f.other, 1, 0, 5, 1, 0)
	count(f.other, 2, time.Hour, 10, 0, 0)
	count(f.db, 1, 2*time.Hour, 100, 3, 2)
	count(f.db, 1, 25*time.Hour-time.Minute, 1000, 1000, 1000)
	list := f.claimedDeliveries(3, s)
	f.settleDeliveries(f.db, f.settlement(list[0], eventhook.DeliveryDead))
	first := list[1].Lease.Until
	got := stats()
	same(t, "the oldest due delivery", got.OldestAt.Equal(first), true)
	got.OldestAt = nil
	same(t, "then", got, eventhook.SubscriptionStats{DeliveredLastHour: 20, DeliveredLast24h: 120, FailedLastHour: 2, FailedLast24h: 5,
		DeadLastHour: 1, DeadLast24h: 3, MeanDuration: 20 * time.Millisecond, Waiting: 2, DeadInRow: 1})
	f.insertDueDeliveries(s, eventhook.MaxWaitingCount+5)
	same(t, "more than the maximum count", stats().Waiting, eventhook.MaxWaitingCount)
	_, err := f.db.SubscriptionStats(t.Context(), f.secondTenant(), s.ID)
	wantKind(t, "another tenant's", err, eventhook.KindNotFound)
	n, err := f.db.SweepUsage(t.Context(), Retention{})
	f.must(err)
	same(t, "swept", n, 0)
	f.clock.Advance(time.Hour)
	n, err = f.db.SweepUsage(t.Context(), Retention{})
	f.must(err)
	same(t, "swept an hour later", n, 1)
}
