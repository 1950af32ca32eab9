package pg

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// A tenant is closed while one of its subscriptions is held. A probe would send deliveries that
// the closing has ended.
func TestClosingEndsProbes(t *testing.T) {
	o := newOutage(t)
	version := o.storedSubscription(o.of.ID).Version
	_, err := o.db.CloseTenant(t.Context(), operator, "acme")
	o.must(err)
	got := o.storedSubscription(o.of.ID)
	same(t, "disabled by", []any{got.DisabledBy, got.HoldsDeliveries(), got.Version}, []any{eventhook.DisabledByTenant, false, version + 1})
	same(t, "events about it", o.count("event", "event_type = 'webhook.disabled_via_tenant_cascade'"), 0)
	o.cleanUp(o.db)
	o.clock.Advance(time.Hour)
	same(t, "probes", len(o.step(o.db)), 0)
}

// An instance of an older version closes the tenant.
func TestASubscriptionOfAClosedTenantIsNotProbed(t *testing.T) {
	o := newOutage(t)
	o.exec(`UPDATE eventhook.tenant SET status = 'closed' WHERE id = $1`, [16]byte(o.tenant))
	o.clock.Advance(time.Hour)
	same(t, "probes", len(o.step(o.db)), 0)
	same(t, "due probes", o.count("subscription_health", "next_probe_at IS NOT NULL"), 0)
}
