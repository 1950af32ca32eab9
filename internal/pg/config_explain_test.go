package pg

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

func TestFindIdempotencyKey(t *testing.T) {
	f := setUp(t)
	e := f.event(func(e *eventhook.Event) { e.IdempotencyKey = "k" })
	f.must(f.db.Accept(t.Context(), arrivals(e)))
	umbrella := f.secondTenant()
	for _, c := range []struct {
		claim  string
		tenant eventhook.TenantID
		source eventhook.SourceID
		key    string
		after  time.Duration
		found  bool
	}{
		{"the key", f.tenant, f.crm, "k", 0, true},
		{"another key", f.tenant, f.crm, "l", 0, false},
		{"no key", f.tenant, f.crm, "", 0, false},
		{"another source", f.tenant, f.shop, "k", 0, false},
		{"another tenant", umbrella, f.crm, "k", 0, false},
		{"just before its expiry", f.tenant, f.crm, "k", keyTTL - time.Second, true},
		{"at its expiry", f.tenant, f.crm, "k", time.Second, false},
	} {
		f.clock.Advance(c.after)
		id, found, err := f.db.FindIdempotencyKey(t.Context(), c.tenant, c.source, c.key, "")
		f.must(err)
		same(t, c.claim, found, c.found)
		if c.found {
			same(t, c.claim+", the event", id, e.ID)
		}
	}
	same(t, "stored keys", f.count("idempotency_key", "true"), 1)
}

func TestAllRoutesIncludesDisabledRoutes(t *testing.T) {
	f := setUp(t)
	c := acme()
	r := c.Sources[0].Routes[0]
	r.Name, r.Priority, r.IsEnabled = "off", 9, false
	c.Sources[0].Routes = append(c.Sources[0].Routes, r)
	f.apply(c)
	routes, err := f.db.AllRoutes(t.Context(), f.crm)
	f.must(err)
	same(t, "routes", len(routes), 2)
	same(t, "the first", routes[0].Name, "off")
	same(t, "it is enabled", routes[0].IsEnabled, false)
	routes, err = f.db.AllRoutes(t.Context(), f.shop)
	f.must(err)
	same(t, "of another source", len(routes), 0)
}
