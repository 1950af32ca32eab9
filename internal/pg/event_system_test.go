package pg

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// deliveredTypes returns the types of events of which a subscription has deliveries, oldest first.
func (f *fixture) deliveredTypes(s eventhook.Subscription) string {
	f.Helper()
	rows, err := f.db.work.Query(f.Context(), `SELECT d.event_type FROM eventhook.delivery d JOIN eventhook.event e ON e.tenant_id = d.tenant_id AND e.id = d.event_id
		WHERE d.destination_id = $1 ORDER BY e.id`, [16]byte(s.ID))
	f.must(err)
	types, err := pgx.CollectRows(rows, pgx.RowTo[string])
	f.must(err)
	return strings.Join(types, " ")
}

func TestSystemEventsReachTheirSubscribers(t *testing.T) {
	f := setUp(t)
	umbrella := f.secondTenant()
	subscribe := func(name string, patterns ...string) eventhook.Subscription {
		f.clock.Advance(time.Second)
		return f.subscription(named(name, patterns...))
	}
	all := subscribe("all", "*")
	sources, one := subscribe("sources", "source.*", "source.updated"), subscribe("one", "tenant.updated")
	none, near := subscribe("none", "payment.*", "sources.*"), subscribe("near", "source", "source.updated.*", "tenant.updat.*")
	paused, off := subscribe("paused", "*"), subscribe("off", "*")
	admins := subscribe("admins", "webhook.disabled_via_tenant_cascade", "tenant.closed", "tenant.created")
	foreign, err := f.db.CreateSubscription(t.Context(), operator, f.newSubscription(func(s *eventhook.Subscription) { s.TenantID, s.EventTypes = umbrella, []string{"*"} }))
	f.must(err)
	for s, to := range map[eventhook.SubscriptionID]eventhook.SubscriptionStatus{paused.ID: eventhook.SubscriptionPaused, off.ID: eventhook.SubscriptionDisabled} {
		_, err := f.changeSubscription(operator, eventhook.Subscription{TenantID: f.tenant, ID: s}, 0, func(s *eventhook.Subscription) { s.Status = to })
		f.must(err)
	}
	f.exec(`DELETE FROM eventhook.delivery`)
	f.clock.Advance(time.Second)
	wake := f.db.hub.wait(deliveriesTopic)
	_, err = f.db.UpdateTenant(t.Context(), operator, "acme", 0, func(have eventhook.Tenant) (eventhook.Tenant, error) {
		have.Name = "A."
		return have, nil
	})
	f.must(err)
	wantClosed(t, "dispatchers", wake)
	c := acme()
	c.Name, c.Sources[0].RequireIdempotencyKey = "A.", true
	f.clock.Advance(time.Second)
	f.apply(c)
	f.clock.Advance(time.Second)
	_, err = f.db.CloseTenant(t.Context(), operator, "acme")
	f.must(err)
	for _, c := range []struct {
		of   eventhook.Subscription
		want string
	}{
		{all, "tenant.updated source.updated"}, {sources, "source.updated"}, {one, "tenant.updated"},
		{none, ""}, {near, ""}, {paused, "tenant.updated source.updated"}, {off, ""}, {admins, ""}, {foreign, ""},
	} {
		same(t, c.of.Name, f.deliveredTypes(c.of), c.want)
	}
	same(t, "due now without a lease", f.count("delivery", `status = 'pending' AND due_at <= $1 AND lease_token = 0 AND attempts = 0`, f.clock.Now()), 6)
	same(t, "deliveries in the partition of their events", f.count("delivery d", `EXISTS (SELECT FROM eventhook.event e WHERE e.tenant_id = d.tenant_id AND e.id = d.event_id
		AND left(d.id::text, 18) = left(e.id::text, 18) AND d.event_type = e.event_type)`), 6)
}

func TestTheContentOfASystemEvent(t *testing.T) {
	f := setUp(t)
	by := eventhook.Actor{Type: eventhook.ActorKey, KeyID: eventhook.NewID[eventhook.APIKey](noon), Name: "ci", RequestID: "req-1"}
	s, err := f.db.CreateSubscription(t.Context(), by, f.newSubscription())
	f.must(err)
	var e eventhook.Event
	var body, envelope []byte
	f.must(f.db.work.QueryRow(t.Context(), `SELECT e.id, e.event_type, e.status, e.origin, e.trace_id, e.request_id, e.body_size, p.body, p.envelope
		FROM eventhook.event e JOIN eventhook.event_payload p ON p.event_id = e.id WHERE e.tenant_id = $1`, [16]byte(f.tenant)).
		Scan((*[16]byte)(&e.ID), &e.EventType, &e.Status, &e.Origin, &e.TraceID, &e.RequestID, &e.BodySize, &body, &envelope))
	actor := fmt.Sprintf(`{"type":"api_key","id":"%s","name":"ci"}`, by.KeyID)
	same(t, "its data", string(body), fmt.Sprintf(`{"tenant":"acme","resource":{"type":"subscription","id":"%s","name":"billing"},"actor":%s}`, s.ID, actor))
	same(t, "its envelope", string(envelope), fmt.Sprintf(`{"category":"eventhook","actor":%s}`, actor))
	same(t, "the event", []any{e.EventType, e.Status, e.Origin, e.RequestID, e.BodySize, len(e.TraceID)},
		[]any{"webhook.created", eventhook.EventDelivered, eventhook.OriginSystem, "req-1", len(body), 32})
	same(t, "watchers are notified", len(f.db.feed.takeNotices()) > 0 || f.db.feed.isUnwatched(), true)
}

func TestFiltersApplyToSystemEvents(t *testing.T) {
	f := setUp(t)
	var judged []string
	f.db = f.open(func(o *Options) {
		o.Matches = func(filter json.RawMessage, e *eventhook.Event) bool {
			judged = append(judged, fmt.Sprintf("%s %s %s", filter, e.EventType, e.Body[:15]))
			return strings.Contains(string(filter), "yes")
		}
	})
	yes := f.subscription(named("yes", "source.*"), func(s *eventhook.Subscription) { s.Filter = []byte(`{"body.a":"yes"}`) })
	no := f.subscription(named("no", "source.*", "*"), func(s *eventhook.Subscription) { s.Filter = []byte(`{"body.a":"no"}`) })
	judged = nil
	f.must(f.db.DeleteSource(t.Context(), operator, f.tenant, "shop", 0, false))
	slices.Sort(judged)
	same(t, "evaluated filters", judged, []string{`{"body.a":"no"} source.deleted {"tenant":"acme`, `{"body.a":"yes"} source.deleted {"tenant":"acme`})
	same(t, "taken", f.deliveredTypes(yes), "source.deleted")
	same(t, "refused", f.deliveredTypes(no), "")
}

func TestSystemEventsHaveNoScope(t *testing.T) {
	f := setUp(t)
	scoped := f.subscription(named("scoped", "*"), func(s *eventhook.Subscription) { s.ScopeFilter = []string{"*"} })
	all := f.subscription(named("all", "*"))
	f.exec(`DELETE FROM eventhook.delivery`)
	_, err := f.db.UpdateTenant(t.Context(), operator, "acme", 0, func(have eventhook.Tenant) (eventhook.Tenant, error) {
		have.Name = "A."
		return have, nil
	})
	f.must(err)
	same(t, "with a scope_filter", f.deliveredTypes(scoped), "")
	same(t, "without", f.deliveredTypes(all), "tenant.updated")
}

func TestASubscriptionGetsSystemEventsAboutItselfAfterItsCreation(t *testing.T) {
	f := setUp(t)
	s := f.subscription(named("self", "webhook.*"))
	f.clock.Advance(time.Second)
	other := f.subscription(named("other", "*"))
	for _, to := range []eventhook.SubscriptionStatus{eventhook.SubscriptionPaused, eventhook.SubscriptionActive, eventhook.SubscriptionDisabled} {
		f.clock.Advance(time.Second)
		_, err := f.changeSubscription(operator, s, 0, func(s *eventhook.Subscription) { s.Status = to })
		f.must(err)
	}
	f.clock.Advance(time.Second)
	f.must(f.db.DeleteSubscription(t.Context(), operator, f.tenant, s.ID, 0))
	same(t, "system events about itself", f.deliveredTypes(s), "webhook.created webhook.paused webhook.resumed")
	same(t, "system events of another subscription", f.deliveredTypes(other), "webhook.paused webhook.resumed webhook.disabled webhook.deleted")
}

func TestAuditedChangesWithoutASystemEvent(t *testing.T) {
	f := setUp(t)
	s := f.subscription(named("all", "*"))
	f.deleteSystemEvents()
	f.clock.Advance(time.Second)
	_, _, err := f.db.PutEventType(t.Context(), operator, f.tenant, 0, eventhook.EventType{Name: "a.b", Visibility: eventhook.VisibleToTenant})
	f.must(err)
	same(t, "the last entry", f.audit(eventhook.AuditFilter{})[0].Action, "event_type.created")
	same(t, "events", f.count("event", "true"), 0)
	same(t, "deliveries", f.deliveredTypes(s), "")
	_, err = f.changeSubscription(operator, s, 0, func(s *eventhook.Subscription) { s.Name = "a\x00" })
	if err == nil {
		t.Error("an event that the database refuses was stored")
	}
	same(t, "events of refused actions", f.count("event", "true"), 0)
}

func TestPatternsOfMatchTheirType(t *testing.T) {
	for eventType, want := range map[string][]string{
		"a": {"a", "*"}, "a.b": {"a.b", "*", "a.*"}, "a.b.c": {"a.b.c", "*", "a.*", "a.b.*"}, "a.": {"a.", "*", "a.*"},
	} {
		same(t, eventType, patternsOf(eventType), want)
		for _, p := range want {
			same(t, p, eventhook.CheckPattern(p), "")
		}
	}
}

func TestEventsForOperatorsReachNoTenant(t *testing.T) {
	f := setUp(t)
	s := f.subscription(named("all", "*"))
	f.must(f.db.inTx(t.Context(), "test", func(tx pgx.Tx) error {
		published, err := f.db.announceIn(t.Context(), tx, []*eventhook.Event{
			newSystemEvent(f.tenant, "tenant.created", []byte(`{}`)), newSystemEvent(f.tenant, "tenant.updated", []byte(`{}`)),
		}, nil)
		same(t, "announced", []int{len(published.events[f.tenant]), published.deliveries}, []int{2, 1})
		return err
	}))
	same(t, "delivered", f.deliveredTypes(s), "tenant.updated")
}
