package pg

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

func TestApplyTenantSaysWhatItDoes(t *testing.T) {
	f := setUp(t)
	config := func(change ...func(*eventhook.TenantConfig)) eventhook.TenantConfig {
		c := acme()
		c.Slug = "globex"
		for _, ch := range change {
			ch(&c)
		}
		return c
	}
	plan := func(tenant, crm, route, shop eventhook.ChangeAction) []eventhook.Change {
		return []eventhook.Change{{Action: tenant, Kind: "tenant", Name: "globex"}, {Action: crm, Kind: "source", Name: "globex/crm"},
			{Action: route, Kind: "route", Name: "globex/crm/all"}, {Action: shop, Kind: "source", Name: "globex/shop"}}
	}
	const create, update, unchanged = eventhook.ChangeCreate, eventhook.ChangeUpdate, eventhook.ChangeUnchanged
	for _, c := range []struct {
		claim string
		want  eventhook.TenantConfig
		plan  []eventhook.Change
	}{
		{"a new tenant", config(), plan(create, create, create, create)},
		{"the same", config(), plan(unchanged, unchanged, unchanged, unchanged)},
		{"another name", config(func(c *eventhook.TenantConfig) { c.Name = "Globex Inc." }), plan(update, unchanged, unchanged, unchanged)},
		{"another secret", config(func(c *eventhook.TenantConfig) { c.Sources[1].Verifier = eventhook.NewSecret(`{}`) }), plan(update, unchanged, unchanged, update)},
		{"another setting and route", config(func(c *eventhook.TenantConfig) {
			c.Sources[0].RequireIdempotencyKey, c.Sources[0].Routes[0].Targets[0].Queue = true, "slow"
		}), plan(unchanged, update, update, update)},
	} {
		dry, err := f.db.ApplyTenant(t.Context(), c.want, true)
		f.must(err)
		same(t, c.claim+", dry", dry, c.plan)
		same(t, c.claim, f.apply(c.want), c.plan)
		f.apply(c.want)
		for _, change := range f.apply(c.want) {
			same(t, c.claim+", again: "+change.Name, change.Action, unchanged)
		}
	}
	s, err := f.db.FindSource(t.Context(), "globex", "crm")
	f.must(err)
	same(t, "the setting", s.RequireIdempotencyKey, true)
	_, routes, err := f.db.SourceRouting(t.Context(), s.ID)
	f.must(err)
	same(t, "the route's queue", routes[0].Targets[0].Queue, "slow")
}

func TestADryRunWritesNothing(t *testing.T) {
	f := setUp(t)
	snapshot := func() [3]string {
		var s [3]string
		for i, table := range []string{"tenant", "source", "route"} {
			s[i] = one[string](f, `SELECT coalesce(string_agg(r::text, '|' ORDER BY r.id), '') FROM eventhook.`+table+` r`)
		}
		return s
	}
	before := snapshot()
	changed, added := acme(), acme()
	changed.Name, changed.Sources[0].Name, changed.Sources[0].Routes[0].Priority = "x", "y", 9
	added.Slug = "globex"
	for _, c := range []eventhook.TenantConfig{changed, added} {
		changes, err := f.db.ApplyTenant(t.Context(), c, true)
		f.must(err)
		same(t, "changes", len(changes), 4)
		same(t, "rows", snapshot(), before)
	}
}

func TestVerifiersAreSealed(t *testing.T) {
	f := setUp(t)
	if row := one[string](f, `SELECT s::text FROM eventhook.source s WHERE slug = 'crm'`); strings.Contains(row, "s3cr3t") || !strings.Contains(row, "enc:test:") {
		t.Errorf("the row is %s, want it sealed", row)
	}
	s, err := f.db.FindSource(t.Context(), "acme", "crm")
	f.must(err)
	same(t, "opened", s.Verifier.Reveal(), acme().Sources[0].Verifier.Reveal())
	_, err = f.db.FindSource(t.Context(), "acme", "nowhere")
	wantKind(t, "an unknown source", err, eventhook.KindNotFound)
	_, err = f.db.FindSource(t.Context(), "globex", "crm")
	wantKind(t, "of an unknown tenant", err, eventhook.KindNotFound)
}

func TestApplyOfAClosedTenantIsRefused(t *testing.T) {
	f := setUp(t)
	f.exec(`UPDATE eventhook.tenant SET status = 'closed'`)
	_, err := f.db.ApplyTenant(t.Context(), acme(), false)
	wantKind(t, "apply", err, eventhook.KindConflict)
}

func TestTwoWhoApplyTakeTurns(t *testing.T) {
	f := setUp(t)
	c := acme()
	c.Slug = "globex"
	created := make(chan int, 4)
	apply := func(db *DB) func() {
		return func() {
			changes, err := db.ApplyTenant(t.Context(), c, false)
			f.must(err)
			n := 0
			for _, change := range changes {
				if change.Action == eventhook.ChangeCreate {
					n++
				}
			}
			created <- n
		}
	}
	together(apply(f.db), apply(f.other), apply(f.db), apply(f.other))
	total := 0
	for range 4 {
		total += <-created
	}
	same(t, "created", total, 4)
}

func TestRoutesComeInTheirOrder(t *testing.T) {
	f := setUp(t)
	c := acme()
	base := c.Sources[0].Routes[0]
	for i, name := range []string{"low", "high", "off", "newer"} {
		r := base
		r.Name, r.Priority, r.IsEnabled = name, []int{-1, 5, 9, 0}[i], name != "off"
		c.Sources[0].Routes = append(c.Sources[0].Routes, r)
	}
	f.clock.advance(time.Second)
	f.apply(c)
	_, routes, err := f.db.SourceRouting(t.Context(), f.crm)
	f.must(err)
	var names []string
	for _, r := range routes {
		names = append(names, r.Name)
	}
	same(t, "routes", names, []string{"high", "all", "newer", "low"})
	_, routes, err = f.db.SourceRouting(t.Context(), eventhook.NewID[eventhook.Source](noon))
	f.must(err)
	same(t, "routes of a source that is gone", len(routes), 0)
}

func TestTenants(t *testing.T) {
	f := setUp(t)
	f.clock.advance(time.Second)
	umbrella := f.secondTenant()
	got, err := f.db.Tenant(t.Context(), "umbrella")
	f.must(err)
	same(t, "found", got.ID, umbrella)
	_, err = f.db.AddTenant(t.Context(), eventhook.Tenant{Slug: "umbrella", Name: "Other"})
	wantKind(t, "a slug that is taken", err, eventhook.KindConflict)
	_, err = f.db.Tenant(t.Context(), "globex")
	wantKind(t, "an unknown tenant", err, eventhook.KindNotFound)
	page, err := f.db.Tenants(t.Context(), eventhook.TenantID{}, 1)
	f.must(err)
	same(t, "the newest", page[0].ID, umbrella)
	page, err = f.db.Tenants(t.Context(), umbrella, 10)
	f.must(err)
	same(t, "those before", len(page), 1)
	same(t, "it", page[0].ID, f.tenant)
}

func TestKeys(t *testing.T) {
	f := setUp(t)
	ends := noon.Add(time.Hour)
	key := eventhook.APIKey{TenantID: f.tenant, Name: "ci", Prefix: "ehk_1234", Scopes: []eventhook.Scope{eventhook.ScopeRead, eventhook.ScopeWork}}
	find := func(text string) (eventhook.APIKey, string, error) {
		return f.other.KeyByHash(t.Context(), hashed(text))
	}
	wantNone := func(claim, text string) {
		t.Helper()
		_, _, err := find(text)
		wantKind(t, claim, err, eventhook.KindUnauthorized)
	}
	first, err := f.db.AddKey(t.Context(), key, hashed("ehk_one"))
	f.must(err)
	f.clock.advance(time.Second)
	key.ExpiresAt = &ends
	second, err := f.db.AddKey(t.Context(), key, hashed("ehk_two"))
	f.must(err)
	if row := one[string](f, `SELECT string_agg(k::text, '|') FROM eventhook.api_key k`); strings.Contains(row, "ehk_one") {
		t.Errorf("the key is in its row: %s", row)
	}

	got, tenant, err := find("ehk_one")
	f.must(err)
	same(t, "tenant", tenant, "acme")
	got.CreatedAt = got.CreatedAt.UTC()
	same(t, "key", got, first)
	wantNone("an unknown key", "ehk_three")

	list, err := f.db.Keys(t.Context(), f.tenant, eventhook.KeyID{}, 10)
	f.must(err)
	same(t, "keys, newest first", []eventhook.KeyID{list[0].ID, list[1].ID}, []eventhook.KeyID{second.ID, first.ID})
	list, err = f.db.Keys(t.Context(), f.tenant, second.ID, 10)
	f.must(err)
	same(t, "keys before a cursor", len(list), 1)
	umbrella := f.secondTenant()
	list, err = f.db.Keys(t.Context(), umbrella, eventhook.KeyID{}, 10)
	f.must(err)
	same(t, "another tenant's keys", len(list), 0)

	f.clock.advance(time.Hour - 2*time.Second)
	_, _, err = find("ehk_two")
	f.must(err)
	f.clock.advance(time.Second)
	wantNone("an expired key", "ehk_two")
	wantKind(t, "deleted by another tenant", f.db.DeleteKey(t.Context(), umbrella, first.ID), eventhook.KindNotFound)
	f.exec(`UPDATE eventhook.tenant SET status = 'suspended' WHERE slug = 'acme'`)
	_, _, err = find("ehk_one")
	f.must(err)
	f.exec(`UPDATE eventhook.tenant SET status = 'closed' WHERE slug = 'acme'`)
	wantNone("a key of a closed tenant", "ehk_one")
	f.exec(`UPDATE eventhook.tenant SET status = 'active' WHERE slug = 'acme'`)
	f.must(f.db.DeleteKey(t.Context(), f.tenant, first.ID))
	wantNone("a deleted key", "ehk_one")
	wantKind(t, "deleted twice", f.db.DeleteKey(t.Context(), f.tenant, first.ID), eventhook.KindNotFound)
}

// hashed is what the API stores of a key.
func hashed(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}
