package outbound_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

const unsentScope = "not sent: the scope_filter of the subscription no longer matches the scope of the event"

// ofScope sets the scope of the event of a delivery; null has none.
func ofScope(d *eventhook.Delivery, scope string) {
	d.Event.Envelope = &eventhook.Envelope{Scope: json.RawMessage(scope)}
}

// The tenant gives a subscription to another customer while deliveries wait.
func TestDeliveriesOfAnotherScopeDieUnsent(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		s := w.subscribe(newTenant(), 0, nil, func(s *eventhook.Subscription) {
			s.ScopeFilter = []string{"customer-4",
				"customer-4/*"}
		})
		waiting := map[*eventhook.Delivery]eventhook.DeliveryStatus{}
		for scope, want := range map[string]eventhook.DeliveryStatus{`"customer-4"`: success, `"customer-4/eu"`: success,
			`"customer-42"`: dead, "null": dead} {
			d := w.store(s, time.Time{})
			ofScope(d, scope)
			waiting[d] = want
		}
		withoutEnvelope, test := w.store(s, time.Time{}), w.store(s, time.Time{})
		test.EventType = "system.webhook_test"
		w.set(func(q *deliveryQueue) { q.rows[test.ID].EventType = test.EventType })
		waiting[withoutEnvelope], waiting[test] = dead, success
		w.start()
		w.advance(time.Second)
		for d, want := range waiting {
			r := w.row(d.ID)
			if r.Status != want || want == dead && (r.Attempts != 0 || r.LastError != unsentScope) {
				t.Errorf("got %s after %d attempts (%q), want %s", r.Status, r.Attempts, r.LastError, want)
			}
		}
	})
}

// Such deliveries do not disable the subscription of the new customer.
func TestDeliveriesOfAnotherScopeDoNotCount(t *testing.T) {
	now := time.Now()
	d := &eventhook.Delivery{EventID: eventhook.NewID[eventhook.Event](now), Event: &eventhook.Event{}}
	ofScope(d, `"customer-42"`)
	rules, to := outbound.OutcomeRules{Now: now, MaxAge: time.Hour}, outbound.Destination{Scopes: []string{"customer-4"}}
	reason := rules.Unsendable(to, d)
	if got := rules.Unsent(to, d, reason); reason != unsentScope || !got.IsUncounted || got.IsStale || got.Status != dead {
		t.Errorf("%q: got %+v, want it dead and not counted", reason, got)
	}
	rules.Now = now.Add(2 * time.Hour)
	if got := rules.Unsent(to, d, rules.Unsendable(to, d)); got.IsUncounted || !got.IsStale {
		t.Errorf("too old: got %+v, want it counted", got)
	}
}

// A probe sends no delivery of another scope either: it passes on to the next one.
func TestAProbeSendsNoDeliveryOfAnotherScope(t *testing.T) {
	runProberTest(t, func(h *probeHarness) {
		h.answer(204, 0)
		id, list := h.disable(2, 1)
		h.probeStore.mu.Lock()
		o := h.outages[id]
		o.of.ScopeFilter = []string{"customer-4"}
		for i, scope := range []string{`"customer-42"`, `"customer-4"`, `"customer-42"`} {
			ofScope(&o.missed[i].Delivery, scope)
		}
		h.probeStore.mu.Unlock()
		defer h.start()()
		h.advance(2 * time.Minute)
		h.wantSent("of the scope", time.Minute)
		if got := h.statuses(id); got[0] != dead || got[1] != success {
			t.Errorf("got %v of the deliveries %v, want the second one sent", got, list)
		}
	})
}
