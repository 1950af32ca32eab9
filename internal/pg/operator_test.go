package pg

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/match"
)

// operatorSubscription creates an operator subscription.
func (f *fixture) operatorSubscription(change ...func(*eventhook.Subscription)) eventhook.Subscription {
	f.Helper()
	s := f.newSubscription(append([]func(*eventhook.Subscription){func(s *eventhook.Subscription) {
		s.TenantID, s.EventTypes = eventhook.OperatorTenant, []string{"*"}
	}}, change...)...)
	s, err := f.db.CreateSubscription(f.Context(), operator, s)
	f.must(err)
	return s
}

func TestOperatorSubscriptionsReceiveSystemEventsOfAllTenants(t *testing.T) {
	f := setUp(t)
	f.secondTenant()
	own := f.subscription(func(s *eventhook.Subscription) { s.EventTypes = []string{"*"} })
	all := f.operatorSubscription()
	one := f.operatorSubscription(func(s *eventhook.Subscription) { s.Tenants = []string{"umbrella"} })
	f.exec(`TRUNCATE eventhook.delivery_default`)
	for _, slug := range []string{"acme", "umbrella"} {
		_, err := f.db.CloseTenant(t.Context(), operator, slug)
		f.must(err)
	}
	count := func(s eventhook.Subscription, eventType string) int {
		return queryValue[int](f, `SELECT count(*) FROM eventhook.delivery WHERE destination_id = $1 AND event_type = $2`, [16]byte(s.ID), eventType)
	}
	same(t, "tenant.closed to all", count(all, "tenant.closed"), 2)
	same(t, "tenant.closed of one tenant", count(one, "tenant.closed"), 1)
	same(t, "tenant.closed to the tenant", count(own, "tenant.closed"), 0)
	same(t, "cascade to all", count(all, "source.disabled_via_tenant_cascade"), 2)

	f.clock.Advance(lateWrites)
	f.cleanUp(f.db)
	same(t, "deliveries to the operator are not ended", count(all, "tenant.closed"), queryValue[int](f,
		`SELECT count(*) FROM eventhook.delivery WHERE destination_id = $1 AND event_type = 'tenant.closed' AND due_at IS NOT NULL`, [16]byte(all.ID)))
	same(t, "tenants in the list", len(f.tenants()), 2)
}

func (f *fixture) tenants() []eventhook.Tenant {
	f.Helper()
	list, err := f.db.Tenants(f.Context(), eventhook.TenantID{}, 100)
	f.must(err)
	return list
}

// A change of an operator subscription makes the plans of every tenant stale, and the tenant
// does not see deliveries to the operator.
func TestOperatorSubscriptionsReceivePublishedEventsUnseen(t *testing.T) {
	f := setUp(t)
	own := f.subscription(func(s *eventhook.Subscription) { s.EventTypes = []string{"a.*"} })
	generation, list, err := f.db.TenantSubscriptions(t.Context(), f.tenant)
	f.must(err)
	same(t, "subscriptions before", len(list), 1)
	all := f.operatorSubscription()
	f.operatorSubscription(func(s *eventhook.Subscription) { s.Tenants = []string{"umbrella"} })
	now, list, err := f.db.TenantSubscriptions(t.Context(), f.tenant)
	f.must(err)
	if len(list) != 2 || list[0].ID != own.ID || list[1].ID != all.ID || !list[1].IsOperator() || list[1].SecretsLost {
		t.Fatalf("got %+v, want the tenant's and one operator subscription", list)
	}
	if now <= generation {
		t.Errorf("the generation is %d after a change of the operator, and was %d", now, generation)
	}

	e := f.newPublication("").Event
	publish := func(generation int64) *outbound.PublishItem {
		p := &outbound.PublishItem{Event: e, Generation: generation}
		for _, s := range list {
			to := eventhook.DestinationID(s.ID)
			p.Deliveries = append(p.Deliveries, &eventhook.Delivery{ID: eventhook.DeliveryIDOf(e.ID, to), DestinationID: to, SubscriptionID: s.ID, Status: eventhook.DeliveryPending})
		}
		f.must(f.db.Publish(t.Context(), []*outbound.PublishItem{p}))
		return p
	}
	if p := publish(generation); !p.IsStale {
		t.Error("a plan from before the operator's change is not stale")
	}
	if p := publish(now); p.IsStale {
		t.Fatal("a current plan is stale")
	}
	same(t, "stored deliveries", queryValue[int](f, `SELECT count(*) FROM eventhook.delivery WHERE event_id = $1`, [16]byte(e.ID)), 2)
	seen, n, err := f.db.EventDeliveries(t.Context(), f.tenant, e.ID, 10)
	f.must(err)
	if n != 1 || len(seen) != 1 || seen[0].SubscriptionID != own.ID {
		t.Errorf("the event shows %d deliveries %+v, want the tenant's", n, seen)
	}
	for claim, filter := range map[string]eventhook.DeliveryFilter{
		"all": {Limit: 10}, "of the event": {EventID: e.ID, Limit: 10}, "pending": {Status: eventhook.DeliveryPending, Limit: 10},
		"of the operator subscription": {SubscriptionID: all.ID, Limit: 10}, "pending of the operator subscription": {SubscriptionID: all.ID, Status: eventhook.DeliveryPending, Limit: 10},
	} {
		list, err := f.db.Deliveries(t.Context(), f.tenant, filter)
		f.must(err)
		scan, err := f.db.ScanDeliveries(t.Context(), f.tenant, filter)
		f.must(err)
		if slices.ContainsFunc(append(list, scan.Deliveries...), func(d eventhook.Delivery) bool { return d.SubscriptionID == all.ID }) {
			t.Errorf("the list %q of the tenant has a delivery to the operator", claim)
		}
	}
	hidden := eventhook.DeliveryIDOf(e.ID, eventhook.DestinationID(all.ID))
	_, _, err = f.db.Delivery(t.Context(), f.tenant, hidden)
	wantKind(t, "a delivery to the operator", err, eventhook.KindNotFound)
	f.exec(`UPDATE eventhook.delivery SET status = 'dead', due_at = NULL, completed_at = $1, last_error = 'x'`, noon)
	restarted, err := f.db.RestartDeliveries(t.Context(), operator, f.tenant, eventhook.DeliverySelection{Limit: 10})
	f.must(err)
	same(t, "restarted by the tenant", len(restarted), 1)
}

// The dispatcher finds an operator subscription from a delivery of any tenant.
func TestTheCacheFindsOperatorSubscriptions(t *testing.T) {
	f := setUp(t)
	all := f.operatorSubscription()
	cache := match.NewSubscriptionCache(10, f.db, f.db.log, func() time.Time { return noon })
	one, err := cache.Subscription(context.Background(), f.tenant, all.ID)
	f.must(err)
	same(t, "owner", one.TenantID, eventhook.OperatorTenant)
	two, err := cache.Subscription(context.Background(), eventhook.OperatorTenant, all.ID)
	f.must(err)
	if one != two {
		t.Error("got two subscriptions, want the same pointer for every tenant")
	}
}
