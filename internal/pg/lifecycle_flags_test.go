package pg

import (
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/send"
)

// usesLog reports whether an instance stores the changes of a tenant.
func (f *fixture) usesLog(db *DB, tenant eventhook.TenantID) bool {
	return db.form(f.Context(), tenant, changeSQL{logged: "logged", silent: "silent"}) == "logged"
}

func TestStatementsHaveNoLogWhileNobodySubscribes(t *testing.T) {
	f := setUp(t)
	second := f.secondTenant()
	f.lifecycleSubscription("*", "order.*")
	want := func(when string, db *DB, one, two bool) {
		t.Helper()
		same(t, when, []bool{f.usesLog(db, f.tenant), f.usesLog(db, second)}, []bool{one, two})
	}
	want("before", f.db, false, false)
	want("before, on another instance", f.other, false, false)
	s := f.lifecycleSubscription("task.*")
	want("a tenant subscribes", f.db, true, false)
	want("another instance without the notification", f.other, false, false)
	f.clock.Advance(lifecycleFlagAge + time.Second)
	want("another instance, later", f.other, true, false)

	changes := f.listening(f.other)
	// notified waits for the notification that the other instance needs; others may precede it.
	notified := func(when string, one, two bool) {
		t.Helper()
		want(when, f.db, one, two)
		for f.usesLog(f.other, f.tenant) != one || f.usesLog(f.other, second) != two {
			t.Logf("%s: another instance has received %+v", when, next(f, changes))
		}
	}
	f.must(f.db.DeleteSubscription(t.Context(), operator, f.tenant, s.ID, 0))
	notified("the subscription is deleted", false, false)
	config := acme()
	config.Subscriptions = []eventhook.Subscription{fileSubscription("life", func(s *eventhook.Subscription) { s.EventTypes = []string{"task.*"} })}
	f.apply(config)
	notified("a configuration has a subscription", true, false)
	_, err := f.db.ApplyTenant(t.Context(), operator, acme(), ApplyOptions{Prune: true})
	f.must(err)
	notified("the next configuration has none", false, false)
	f.operatorSubscription(func(s *eventhook.Subscription) { s.EventTypes = []string{"promise.expired"} })
	notified("the operator subscribes", true, true)
}

// Lifecycle events to which only the operator subscribes do not belong to their tenant, which
// therefore does not see that the operator listens.
func TestLifecycleEventsReachTheOperator(t *testing.T) {
	f := setUp(t)
	all := f.operatorSubscription(func(s *eventhook.Subscription) { s.EventTypes = []string{"task.*"} })
	of := f.operatorSubscription(func(s *eventhook.Subscription) { s.EventTypes, s.Tenants = []string{"promise.*"}, []string{"umbrella"} })
	own := f.lifecycleSubscription("task.completed")
	f.everyChange()
	same(t, "events of all", f.publishLifecycle(all), []string{"task.started", "task.completed", "task.started", "task.failed", "task.cancelled", "task.started", "task.dead"})
	same(t, "events of another tenant", f.publishLifecycle(of), []string{})
	same(t, "events of the tenant", f.publishLifecycle(own), []string{"task.completed"})
	list, err := f.db.Events(t.Context(), f.tenant, eventhook.EventFilter{EventType: "task.*", Limit: 10})
	f.must(err)
	if len(list) != 1 || list[0].EventType != "task.completed" {
		t.Errorf("the tenant's list has %+v, want only the event to which it subscribes", list)
	}
	for _, d := range f.claimDeliveries(f.db, 10, &all) {
		if body := string(send.Body(d.Event)); !strings.Contains(body, `"tenant_id":"`+f.tenant.String()+`"`) {
			t.Errorf("the body of %s does not name the tenant: %s", d.EventType, body)
		}
	}
}
