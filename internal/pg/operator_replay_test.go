package pg

import (
	"slices"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/replay"
)

// publishIn publishes an event of a tenant, with deliveries to subscriptions.
func (f *fixture) publishIn(tenant eventhook.TenantID, eventType string, to ...eventhook.Subscription) eventhook.EventID {
	f.Helper()
	f.clock.Advance(time.Millisecond)
	var list []*eventhook.Subscription
	for _, s := range to {
		list = append(list, &s)
	}
	p := f.newPublication("", list...)
	generation, _, err := f.db.TenantSubscriptions(f.Context(), tenant)
	f.must(err)
	p.Event.TenantID, p.Event.EventType, p.Generation = tenant, eventType, generation
	f.publish(f.db, p)
	if p.IsStale {
		f.Fatal("the publication is stale")
	}
	return p.Event.ID
}

// bothTenants publishes an event of each tenant to a subscription.
func (f *fixture) bothTenants(second eventhook.TenantID, to ...eventhook.Subscription) {
	f.Helper()
	f.publishIn(f.tenant, "payment.made", to...)
	f.publishIn(second, "payment.made", to...)
}

// receivedFrom counts the deliveries to a subscription that succeeded, by the slug of their
// tenant.
func (f *fixture) receivedFrom(s eventhook.Subscription) map[string]int {
	f.Helper()
	rows, err := f.db.work.Query(f.Context(), `SELECT t.slug, count(*) FROM eventhook.delivery d JOIN eventhook.tenant t ON t.id = d.tenant_id
		WHERE d.destination_id = $1 AND d.status = 'success' GROUP BY 1`, [16]byte(s.ID))
	f.must(err)
	defer rows.Close()
	counts := map[string]int{}
	for rows.Next() {
		var slug string
		var n int
		f.must(rows.Scan(&slug, &n))
		counts[slug] = n
	}
	f.must(rows.Err())
	return counts
}

func (f *fixture) operatorTo(types ...string) eventhook.Subscription {
	f.Helper()
	s := f.operatorSubscription(func(s *eventhook.Subscription) { s.EventTypes = types })
	f.exec(`TRUNCATE eventhook.delivery_default`)
	return s
}

// An outage of the operator's receiver ends like every outage: the receiver is probed, and the
// deliveries of all tenants that became dead or were held are sent.
func TestAnOperatorSubscriptionRecovers(t *testing.T) {
	f := setUp(t)
	second := f.secondTenant()
	s := f.operatorTo("payment.*")
	for range 2 {
		f.bothTenants(second, s)
	}
	for _, d := range f.claimDeliveries(f.db, 10, &s) {
		f.settleDeliveries(f.db, f.settlement(d, eventhook.DeliveryDead, limit(4)))
	}
	f.bothTenants(second, s) // held
	f.deleteSystemDeliveries()
	o := &outageFixture{f, &probed{f: f, says: answers(200)}, &s, nil}
	o.clock.Advance(time.Minute)
	same(t, "probed", len(o.step(o.other)), 1)
	now, err := f.db.Subscription(t.Context(), eventhook.OperatorTenant, s.ID)
	f.must(err)
	same(t, "status after a successful probe", now.Status, eventhook.SubscriptionActive)
	w := f.replayWorker(f.other)
	for range 3 {
		f.replaySteps(w)
		f.deliver(s, eventhook.DeliverySuccess)
		f.clock.Advance(time.Minute)
	}
	same(t, "received", f.receivedFrom(s), map[string]int{"acme": 3, "umbrella": 3})
	same(t, "recoveries that have ended", f.count("replay", "status = 'completed' AND queued = 3"), 1)
}

// A replay of an operator subscription sends the dead and the missing events of all tenants
// that it names today, also of types that only the admin sees.
func TestAnOperatorSubscriptionIsReplayed(t *testing.T) {
	f := setUp(t)
	second := f.secondTenant()
	f.bothTenants(second) // before the subscription existed
	f.publishIn(second, "tenant.closed")
	f.publishIn(f.tenant, "order.made")
	f.clock.Advance(20 * day)
	s := f.operatorTo("payment.*", "tenant.*")
	f.bothTenants(second, s)
	f.deliver(s, eventhook.DeliveryDead)
	f.publishIn(f.tenant, "payment.made") // while it was disabled
	f.clock.Advance(time.Second)
	w := f.replayWorker(f.other)

	s, err := f.db.UpdateSubscription(t.Context(), operator, eventhook.OperatorTenant, s.ID, 0, func(x eventhook.Subscription) (eventhook.Subscription, error) {
		x.Tenants = []string{"umbrella"}
		return x, nil
	})
	f.must(err)
	f.exec(`DELETE FROM eventhook.delivery WHERE event_type = 'webhook.updated'`)
	dead := f.startReplay(s)
	same(t, "dead deliveries of the named tenant", f.finishOperatorReplay(s, dead), 1)
	all := f.startReplay(s, withMissing)
	same(t, "missing events of the named tenant", f.finishOperatorReplay(s, all), 3) // with tenant.created and tenant.closed
	same(t, "received", f.receivedFrom(s), map[string]int{"umbrella": 4})

	s, err = f.db.UpdateSubscription(t.Context(), operator, eventhook.OperatorTenant, s.ID, 0, func(x eventhook.Subscription) (eventhook.Subscription, error) {
		x.Tenants = nil
		return x, nil
	})
	f.must(err)
	estimated, err := w.Estimate(t.Context(), s, eventhook.ReplayRequest{Since: noon, Missing: true})
	f.must(err)
	same(t, "estimated", estimated, int64(3))
	same(t, "missing and dead events of the other tenant", f.finishOperatorReplay(s, f.startReplay(s, withMissing)), 3)
	same(t, "received from all", f.receivedFrom(s), map[string]int{"acme": 3, "umbrella": 4})
	same(t, "again", f.finishOperatorReplay(s, f.startReplay(s, withMissing)), 0)
}

func (f *fixture) finishOperatorReplay(s eventhook.Subscription, r eventhook.Replay) (delivered int) {
	f.Helper()
	w := f.replayWorker(f.other)
	for range 100 {
		f.replaySteps(w)
		if status, _, _, _ := f.replayStatus(r.ID); status != "running" {
			return delivered
		}
		f.clock.Advance(10 * time.Second)
		delivered += f.deliver(s, eventhook.DeliverySuccess)
	}
	f.Fatal("the replay does not end")
	return 0
}

// More events of one moment than a page holds, and long times without an event.
func TestAPageOfAllTenantsHasTheirCommonOrder(t *testing.T) {
	f := setUp(t)
	second := f.secondTenant()
	var want []eventhook.EventID
	for range 7 {
		want = append(want, f.publishIn(f.tenant, "payment.made"), f.publishIn(second, "payment.made"))
		f.clock.Advance(100 * day / 7)
	}
	s := f.operatorTo("payment.*")
	job := &replay.Job{}
	job.Replay = eventhook.Replay{TenantID: eventhook.OperatorTenant, SubscriptionID: s.ID, ReplayRequest: eventhook.ReplayRequest{Since: noon, Until: f.clock.Now(), Missing: true}}
	job.Subscription = s
	var got []eventhook.EventID
	for range 20 {
		page, err := f.db.ReplayPage(t.Context(), job, 4)
		f.must(err)
		for _, d := range page.Deliveries {
			if d.EventType == "payment.made" {
				got = append(got, d.EventID)
			}
		}
		if job.Cursor = page.Cursor; page.IsLast {
			break
		}
	}
	same(t, "events", got, want)
}

// The operator restarts deliveries of one subscription, whatever their tenants are.
func TestTheOperatorRestartsDeliveries(t *testing.T) {
	f := setUp(t)
	second := f.secondTenant()
	own, s := f.subscription(), f.operatorTo("payment.*")
	f.bothTenants(second, s)
	f.publishIn(f.tenant, "payment.made", own)
	for _, status := range []eventhook.DeliveryStatus{eventhook.DeliveryDead, eventhook.DeliveryPending} {
		if status == eventhook.DeliveryDead {
			f.deliver(s, status)
			f.deliver(own, status)
		}
		for _, d := range []string{"list", "scan"} {
			filter := eventhook.DeliveryFilter{SubscriptionID: s.ID, Status: status, Limit: 10}
			list, err := f.db.Deliveries(t.Context(), eventhook.OperatorTenant, filter)
			if d == "scan" {
				var scan eventhook.DeliveryScan
				scan, err = f.db.ScanDeliveries(t.Context(), eventhook.OperatorTenant, filter)
				list = scan.Deliveries
			}
			f.must(err)
			same(t, d+" of "+string(status), len(list), 2)
			if list[0].TenantID != second || list[1].TenantID != f.tenant {
				t.Errorf("the %s of %s deliveries has the tenants %v and %v", d, status, list[0].TenantID, list[1].TenantID)
			}
		}
		if status == eventhook.DeliveryDead {
			wrong := eventhook.DeliverySelection{SubscriptionID: s.ID, Limit: 10, ExpectedCount: new(3)}
			_, err := f.db.RestartDeliveries(t.Context(), operator, eventhook.OperatorTenant, wrong)
			wantKind(t, "a wrong count", err, eventhook.KindConflict)
			restarted, err := f.db.RestartDeliveries(t.Context(), operator, eventhook.OperatorTenant, eventhook.DeliverySelection{SubscriptionID: s.ID, Limit: 10, ExpectedCount: new(2)})
			f.must(err)
			same(t, "restarted", len(restarted), 2)
		}
	}
}

// The outcome of an event does not depend on deliveries to the operator, and a tenant does not
// see these deliveries after the operator has deleted the subscription either.
func TestATenantNeverSeesThatTheOperatorListens(t *testing.T) {
	f := setUp(t)
	own, s := f.subscription(), f.operatorTo("payment.*")
	id := f.publishIn(f.tenant, "payment.made", own, s)
	hidden := eventhook.DeliveryIDOf(id, eventhook.DestinationID(s.ID))
	check := func(when string, want eventhook.Outcome) {
		t.Helper()
		e := f.storedEvent(&eventhook.Event{TenantID: f.tenant, ID: id})
		outcome, err := f.db.EventOutcome(t.Context(), &e, nil)
		f.must(err)
		same(t, "outcome "+when, outcome.Outcome, want)
		list, n, err := f.db.EventDeliveries(t.Context(), f.tenant, id, 10)
		f.must(err)
		same(t, "deliveries of the event "+when, []int{len(list), n}, []int{1, 1})
		all, err := f.db.Deliveries(t.Context(), f.tenant, eventhook.DeliveryFilter{Limit: 10})
		f.must(err)
		scan, err := f.db.ScanDeliveries(t.Context(), f.tenant, eventhook.DeliveryFilter{EventType: "payment.*", Limit: 10})
		f.must(err)
		if slices.ContainsFunc(append(all, scan.Deliveries...), func(d eventhook.Delivery) bool { return d.ID == hidden }) {
			t.Errorf("%s a list of the tenant has the delivery to the operator", when)
		}
		_, _, err = f.db.Delivery(t.Context(), f.tenant, hidden)
		wantKind(t, "the delivery "+when, err, eventhook.KindNotFound)
	}
	check("while all is open", eventhook.OutcomeInProgress)
	f.deliver(own, eventhook.DeliverySuccess)
	check("while only the operator's delivery is open", eventhook.OutcomeSucceeded)
	f.deliver(s, eventhook.DeliveryDead)
	check("after the operator's delivery died", eventhook.OutcomeSucceeded)
	f.must(f.db.DeleteSubscription(t.Context(), operator, eventhook.OperatorTenant, s.ID, 0))
	check("after the operator subscription was deleted", eventhook.OutcomeSucceeded)

	f.clock.Advance(day)
	for _, keep := range []time.Duration{0, day, day / 2} {
		n, err := f.db.SweepOperatorSubscriptions(t.Context(), keep)
		f.must(err)
		same(t, "swept too early", n, 0)
	}
	f.clock.Advance(time.Second)
	n, err := f.db.SweepOperatorSubscriptions(t.Context(), day/2)
	f.must(err)
	same(t, "swept", n, 1)
}
