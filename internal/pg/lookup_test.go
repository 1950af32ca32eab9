package pg

import (
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// lookUp returns the types of the items that a text finds, in their order.
func (f *fixture) lookUp(tenant eventhook.TenantID, text string) (types []eventhook.LookupType) {
	f.Helper()
	found, err := f.db.Lookup(f.Context(), tenant, text)
	f.must(err)
	for _, x := range found.Items {
		types = append(types, x.Type)
	}
	return types
}

func TestALookupFindsWhateverHasTheID(t *testing.T) {
	f := setUp(t)
	other := f.secondTenant()
	s := f.insertSubscription(func(s *eventhook.Subscription) { s.Name = "Billing of orders" })
	p := f.newPublication("order-17", s)
	p.Event.TraceID, p.Event.RequestID, p.Event.CorrelationID = strings.Repeat("ab", 16), "req-1", "corr-1"
	f.publish(f.db, p)
	f.clock.Advance(time.Millisecond)
	own := f.event(f.withLease, withKey("push-1"))
	f.must(f.db.Accept(t.Context(), arrivals(own)))
	x := f.execution(eventhook.Task, func(x *eventhook.Execution) { x.IdempotencyKey = "task-1" })
	promise := f.promise("payment-1")
	replay, err := f.db.CreateReplay(t.Context(), operator, eventhook.Subscription{ID: s.ID, TenantID: f.tenant, Name: s.Name}, eventhook.Replay{ReplayRequest: eventhook.ReplayRequest{Since: noon, Until: noon.Add(time.Hour)}})
	f.must(err)
	_, _, err = f.db.PutEventType(t.Context(), operator, f.tenant, 0, eventhook.EventType{Name: "payment.refunded", Visibility: eventhook.VisibleToTenant})
	f.must(err)
	type types = []eventhook.LookupType
	for _, c := range []struct {
		claim, text string
		want        types
	}{
		{"an event", p.Event.ID.String(), types{"event"}},
		{"in capitals", strings.ToUpper(p.Event.ID.String()), types{"event"}},
		{"a trace id that is an event's", strings.ReplaceAll(own.ID.String(), "-", ""), types{"event"}},
		{"a delivery", p.Deliveries[0].ID.String(), types{"delivery"}},
		{"a subscription", s.ID.String(), types{"subscription"}},
		{"an execution", x.String(), types{"execution"}},
		{"a promise", promise.ID.String(), types{"promise"}},
		{"a route", f.route.ID.String(), types{"route"}},
		{"a source", f.crm.String(), types{"source"}},
		{"a replay", replay.ID.String(), types{"replay"}},
		{"an event's key", "push-1", types{"event"}},
		{"a task's key", "task-1", types{"execution"}},
		{"a promise's key", "payment-1", types{"promise"}},
		{"a trace id", strings.Repeat("AB", 16), types{"event"}},
		{"a request id", "req-1", types{"event"}},
		{"a correlation id", "corr-1", types{"event"}},
		{"a slug's beginning", "sh", types{"source"}},
		{"a name's beginning", "billing o", types{"subscription"}},
		{"an event type's beginning", "payment.r", types{"event_type"}},
		{"a stored event's type", "payment.made", types{"event_type"}},
		{"nothing", "nothing", nil},
		{"a pattern is a text", "%", nil},
	} {
		same(t, c.claim, f.lookUp(f.tenant, c.text), c.want)
		same(t, c.claim+" for another tenant", f.lookUp(other, c.text), types(nil))
		same(t, c.claim+" for all tenants", f.lookUp(eventhook.TenantID{}, c.text), c.want)
	}
}

func TestALookupDescribesWhatItFinds(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	p := f.newPublication("", s)
	f.publish(f.db, p)
	one := func(text string) eventhook.LookupItem {
		found, err := f.db.Lookup(t.Context(), f.tenant, text)
		f.must(err)
		same(t, "items for "+text, len(found.Items), 1)
		return found.Items[0]
	}
	d := one(p.Deliveries[0].ID.String())
	same(t, "the delivery", []any{d.ID, d.Label, d.At, d.TenantID}, []any{p.Deliveries[0].ID.String(), "payment.made, pending, to billing", p.Event.ID.Time(), f.tenant})
	r := one(f.route.ID.String())
	same(t, "the route", []string{r.Label, r.SourceSlug}, []string{f.route.Name + " of crm", "crm"})
}

func TestALookupIsBounded(t *testing.T) {
	f := setUp(t)
	for range 25 {
		f.clock.Advance(time.Millisecond)
		f.insertSubscription()
	}
	same(t, "items", len(f.lookUp(f.tenant, "bill")), eventhook.MaxLookup)
}
