package pg

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

const create, update, remove, unchanged = eventhook.ChangeCreate, eventhook.ChangeUpdate, eventhook.ChangeDelete, eventhook.ChangeUnchanged

// globex is acme under another name, changed.
func globex(change ...func(*eventhook.TenantConfig)) eventhook.TenantConfig {
	c := acme()
	c.Slug = "globex"
	for _, ch := range change {
		ch(&c)
	}
	return c
}

func (f *fixture) applyWith(c eventhook.TenantConfig, o ApplyOptions) []eventhook.Change {
	f.Helper()
	changes, err := f.db.ApplyTenant(f.Context(), operator, c, o)
	f.must(err)
	return changes
}

func field(name, from, to string) []eventhook.FieldChange {
	return []eventhook.FieldChange{{Field: name, From: json.RawMessage(from), To: json.RawMessage(to)}}
}

func TestApplyTenantReportsItsChanges(t *testing.T) {
	f := setUp(t)
	plan := func(tenant, crm, route, shop eventhook.ChangeAction) []eventhook.Change {
		return []eventhook.Change{{Action: tenant, Kind: "tenant", Name: "globex"}, {Action: crm, Kind: "source", Name: "globex/crm"},
			{Action: route, Kind: "route", Name: "globex/crm/all"}, {Action: shop, Kind: "source", Name: "globex/shop"}}
	}
	with := func(i int, fields []eventhook.FieldChange) []eventhook.Change {
		p := plan(unchanged, unchanged, unchanged, unchanged)
		p[i].Action, p[i].Fields = update, fields
		return p
	}
	filtered := func(filter string) eventhook.TenantConfig {
		return globex(func(c *eventhook.TenantConfig) { c.Sources[0].Routes[0].Filter = []byte(filter) })
	}
	for _, c := range []struct {
		claim string
		want  eventhook.TenantConfig
		plan  []eventhook.Change
	}{
		{"a new tenant", globex(), plan(create, create, create, create)},
		{"the same", globex(), plan(unchanged, unchanged, unchanged, unchanged)},
		{"another name", globex(func(c *eventhook.TenantConfig) { c.Name = "G." }), with(0, field("name", `"Acme"`, `"G."`))},
		{"a quota", globex(func(c *eventhook.TenantConfig) { c.Name, c.Quota.MaxEventsPerDay = "G.", new(int64(5)) }), with(0, field("max_events_per_day", "null", "5"))},
		{"no quota", globex(func(c *eventhook.TenantConfig) { c.Name = "G." }), plan(unchanged, unchanged, unchanged, unchanged)},
		{"no name", globex(func(c *eventhook.TenantConfig) { c.Name = "" }), plan(unchanged, unchanged, unchanged, unchanged)},
		{"the old name", globex(), with(0, field("name", `"G."`, `"Acme"`))},
		{"another secret", globex(func(c *eventhook.TenantConfig) { c.Sources[1].Verifier = eventhook.NewSecret(`{"x":"hush"}`) }),
			with(3, field("secrets", `"[redacted]"`, `"[redacted, changed]"`))},
		{"the old secret", globex(), with(3, field("secrets", `"[redacted]"`, `"[redacted, changed]"`))},
		{"a setting", globex(func(c *eventhook.TenantConfig) { c.Sources[0].RequireIdempotencyKey = true }), with(1, field("require_idempotency_key", "null", "true"))},
		{"no setting", globex(), with(1, field("require_idempotency_key", "true", "null"))},
		{"a route's filter", filtered(`{"body.a": {"$in": ["x", 1.50]}}`), with(2, field(`filter["body.a"].$in`, "null", `["x",1.50]`))},
		{"an equal filter", filtered(`{"body.\u0061":{"$in":["\u0078",1.50]}}`), plan(unchanged, unchanged, unchanged, unchanged)},
		{"a number that is written differently", filtered(`{"body.a":{"$in":["x",1.5]}}`), with(2, field(`filter["body.a"].$in`, `["x",1.50]`, `["x",1.5]`))},
		{"no filter, and a priority", globex(func(c *eventhook.TenantConfig) { c.Sources[0].Routes[0].Priority = 7 }),
			with(2, append(field(`filter["body.a"].$in`, `["x",1.5]`, "null"), field("priority", "0", "7")...))},
	} {
		same(t, c.claim+", dry", f.applyWith(c.want, ApplyOptions{DryRun: true}), c.plan)
		same(t, c.claim, f.applyWith(c.want, ApplyOptions{}), c.plan)
		for _, change := range f.applyWith(c.want, ApplyOptions{Prune: true}) {
			same(t, c.claim+", again: "+change.Name, change.Action, unchanged)
		}
	}
	tenant, source := f.sourceID("globex", "crm")
	routed, err := f.db.SourceRouting(t.Context(), tenant, source)
	f.must(err)
	same(t, "the route's priority", routed.Routes[0].Priority, 7)
}

func TestPruneDeletesUnnamedResources(t *testing.T) {
	f := setUp(t)
	f.apply(globex(func(c *eventhook.TenantConfig) {
		c.Sources[0].Routes = append(c.Sources[0].Routes, c.Sources[0].Routes[0])
		c.Sources[0].Routes[1].Name = "more"
	}))
	left := globex(func(c *eventhook.TenantConfig) { c.Sources = c.Sources[1:]; c.Sources[0].Slug = "bank" })
	less := globex()
	for _, c := range []struct {
		claim string
		want  eventhook.TenantConfig
		prune bool
		plan  []eventhook.Change
	}{
		{"without prune", less, false, []eventhook.Change{{Action: unchanged, Kind: "tenant", Name: "globex"},
			{Action: unchanged, Kind: "source", Name: "globex/crm"}, {Action: unchanged, Kind: "route", Name: "globex/crm/all"},
			{Action: unchanged, Kind: "source", Name: "globex/shop"}}},
		{"a route", less, true, []eventhook.Change{{Action: unchanged, Kind: "tenant", Name: "globex"},
			{Action: unchanged, Kind: "source", Name: "globex/crm"}, {Action: unchanged, Kind: "route", Name: "globex/crm/all"},
			{Action: remove, Kind: "route", Name: "globex/crm/more"}, {Action: unchanged, Kind: "source", Name: "globex/shop"}}},
		{"sources with their routes", left, true, []eventhook.Change{{Action: unchanged, Kind: "tenant", Name: "globex"},
			{Action: create, Kind: "source", Name: "globex/bank"}, {Action: remove, Kind: "route", Name: "globex/crm/all"},
			{Action: remove, Kind: "source", Name: "globex/crm"}, {Action: remove, Kind: "source", Name: "globex/shop"}}},
		{"all resources except the tenant", globex(func(c *eventhook.TenantConfig) { c.Sources = nil }), true, []eventhook.Change{
			{Action: unchanged, Kind: "tenant", Name: "globex"}, {Action: remove, Kind: "source", Name: "globex/bank"}}},
	} {
		same(t, c.claim+", dry", f.applyWith(c.want, ApplyOptions{DryRun: true, Prune: c.prune}), c.plan)
		same(t, c.claim, f.applyWith(c.want, ApplyOptions{Prune: c.prune}), c.plan)
	}
	same(t, "globex's sources", f.count("source", "tenant_id <> $1", [16]byte(f.tenant)), 0)
	same(t, "acme's sources", f.count("source", "tenant_id = $1", [16]byte(f.tenant)), 2)
	same(t, "acme's routes", f.count("route", "true"), 1)
}

func TestADryRunWritesNothing(t *testing.T) {
	f := setUp(t)
	snapshot := func() (s []string) {
		for _, table := range []string{"tenant", "source", "route", "audit_log"} {
			s = append(s, queryValue[string](f, `SELECT coalesce(string_agg(r::text || r.xmax, '|' ORDER BY r.id), '') FROM eventhook.`+table+` r`))
		}
		return s
	}
	before := snapshot()
	changed := acme()
	changed.Name, changed.Sources[0].Name, changed.Sources[0].Routes[0].Priority = "x", "y", 9
	for _, c := range []eventhook.TenantConfig{changed, globex(), {Tenant: changed.Tenant}} {
		if changes := f.applyWith(c, ApplyOptions{DryRun: true, Prune: true}); len(changes) != 4 {
			t.Errorf("got %v, want four changes", changes)
		}
		same(t, "rows", snapshot(), before)
	}
}

// TestApplyIsAudited checks that each change, and nothing else, has an audit entry with its
// actor.
func TestApplyIsAudited(t *testing.T) {
	f := setUp(t)
	by := eventhook.Actor{Type: eventhook.ActorOperator, Name: "command line"}
	seen := f.count("audit_log", "true")
	for _, c := range []eventhook.TenantConfig{globex(), globex(), globex(func(c *eventhook.TenantConfig) {
		c.Name, c.Sources = "G.", c.Sources[:1]
		c.Sources[0].IsEnabled, c.Sources[0].Routes[0].Priority = false, 3
	}), globex(func(c *eventhook.TenantConfig) { c.Name, c.Sources = "G.", nil })} {
		f.clock.Advance(time.Second)
		changes, err := f.db.ApplyTenant(t.Context(), by, c, ApplyOptions{Prune: true})
		f.must(err)
		var want []string
		for _, change := range changes {
			if past, changed := map[eventhook.ChangeAction]string{create: "created", update: "updated", remove: "deleted"}[change.Action]; changed {
				want = append(want, change.Kind+"."+past+" "+change.Name)
			}
		}
		entries, err := f.db.AuditEntries(t.Context(), eventhook.AuditFilter{Limit: f.count("audit_log", "true") - seen})
		f.must(err)
		seen += len(entries)
		var got []string
		for i := len(entries) - 1; i >= 0; i-- {
			e := entries[i]
			same(t, "the actor", e.Actor, by)
			same(t, "the tenant", e.TenantSlug, "globex")
			if len(e.Changes) == 0 || e.ResourceID == "" {
				t.Errorf("%s of %s has no change, or an empty one", e.Action, e.ResourceName)
			}
			name := "globex"
			if e.ResourceType != "tenant" {
				name += "/" + e.ResourceName
			}
			got = append(got, e.Action+" "+name)
		}
		same(t, "the audit log", got, want)
	}
}

func TestApplyOfAClosedTenantIsRefused(t *testing.T) {
	f := setUp(t)
	f.exec(`UPDATE eventhook.tenant SET status = 'closed'`)
	for _, dry := range []bool{false, true} {
		_, err := f.db.ApplyTenant(t.Context(), operator, acme(), ApplyOptions{DryRun: dry})
		wantKind(t, "apply", err, eventhook.KindConflict)
	}
}

func TestConcurrentAppliesOfANewTenantSucceed(t *testing.T) {
	f := setUp(t)
	created := make(chan int, 4)
	apply := func(db *DB) func() {
		return func() {
			changes, err := db.ApplyTenant(t.Context(), operator, globex(), ApplyOptions{})
			if err != nil {
				t.Error(err)
			}
			n := 0
			for _, change := range changes {
				if change.Action == create {
					n++
				}
			}
			created <- n
		}
	}
	concurrently(apply(f.db), apply(f.other), apply(f.db), apply(f.other))
	total := 0
	for range 4 {
		total += <-created
	}
	same(t, "created", total, 4)
}

// many is a configuration of n sources, each with a route.
func many(n int) eventhook.TenantConfig {
	return globex(func(c *eventhook.TenantConfig) {
		source := c.Sources[0]
		c.Sources = nil
		for i := range n {
			source.Slug = fmt.Sprintf("source-%d", i)
			c.Sources = append(c.Sources, source)
		}
	})
}

func TestApplyIsAllOrNothing(t *testing.T) {
	f := setUp(t)
	c := many(600) // more statements than one batch
	c.Sources[599].Name = "what no text can hold: \x00"
	if _, err := f.db.ApplyTenant(t.Context(), operator, c, ApplyOptions{}); err == nil {
		t.Error("got no error")
	}
	same(t, "tenants", f.count("tenant", "slug = 'globex'"), 0)
	same(t, "sources", f.count("source", "tenant_id <> $1", [16]byte(f.tenant)), 0)
	same(t, "its audit entries", f.count("audit_log", "tenant_id <> $1", [16]byte(f.tenant)), 0)
}

func TestInstancesAreNotifiedOfEveryAppliedSource(t *testing.T) {
	f := setUp(t)
	const n = 1500
	ctx, stop := context.WithCancel(t.Context())
	received, ready := make(chan string, 4*n), make(chan struct{})
	ended := make(chan error)
	go func() {
		ended <- f.other.Listen(ctx, func(c ConfigChange) {
			if (c == ConfigChange{}) {
				close(ready)
			}
			received <- c.SourceSlug
		})
	}()
	<-ready
	c := many(n)
	f.apply(c)
	missing := map[string]bool{}
	for _, s := range c.Sources {
		missing[s.Slug] = true
	}
	for len(missing) > 0 {
		delete(missing, <-received)
	}
	same(t, "sources", f.count("source", "tenant_id <> $1", [16]byte(f.tenant)), n)
	same(t, "routes", f.count("route", "tenant_id <> $1", [16]byte(f.tenant)), n)
	stop()
	f.must(<-ended)
}

func TestTenantConfigReturnsTheAppliedConfiguration(t *testing.T) {
	f := setUp(t)
	c := globex(func(c *eventhook.TenantConfig) {
		c.Quota.MaxStorageBytes = new(int64(1 << 40))
		r := c.Sources[0].Routes[0]
		r.Name, r.Priority, r.Filter, r.FilterExpression, r.Transform = "first", 1, []byte(`{"body.a":1.0}`), "true", &eventhook.Transform{Type: "jmespath", Expression: "a"}
		c.Sources[0].Routes = append(c.Sources[0].Routes, r)
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			r.Name, r.Priority = name, 0
			c.Sources[0].Routes = append(c.Sources[0].Routes, r)
		}
	})
	f.apply(c)
	got, err := f.other.TenantConfig(t.Context(), "globex")
	f.must(err)
	for _, change := range f.applyWith(got, ApplyOptions{DryRun: true, Prune: true}) {
		same(t, "applied again: "+change.Name, change.Action, unchanged)
	}
	var names []string
	for _, r := range got.Sources[0].Routes {
		names = append(names, r.Name)
	}
	same(t, "the routes in the order of evaluation", names, []string{"first", "all", "a", "b", "c", "d", "e"})
	same(t, "its filter", string(got.Sources[0].Routes[0].Filter), `{"body.a":1.0}`)
	same(t, "the second source", got.Sources[1].Slug, "shop")
	same(t, "its verifier", got.Sources[1].Verifier.Reveal(), c.Sources[1].Verifier.Reveal())
	_, err = f.db.TenantConfig(t.Context(), "umbrella")
	wantKind(t, "an unknown tenant", err, eventhook.KindNotFound)
}
