package pg

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

func TestTenants(t *testing.T) {
	f := setUp(t)
	f.clock.Advance(time.Second)
	umbrella := f.secondTenant()
	got, err := f.db.Tenant(t.Context(), "umbrella")
	f.must(err)
	same(t, "found", got.ID, umbrella)
	_, err = f.db.CreateTenant(t.Context(), operator, eventhook.Tenant{Slug: "umbrella", Name: "Other"})
	wantKind(t, "a slug that is taken", err, eventhook.KindConflict)
	_, err = f.db.Tenant(t.Context(), "globex")
	wantKind(t, "an unknown tenant", err, eventhook.KindNotFound)
	page, err := f.db.Tenants(t.Context(), eventhook.TenantID{}, 1)
	f.must(err)
	same(t, "the newest", page[0].ID, umbrella)
	page, err = f.db.Tenants(t.Context(), umbrella, 10)
	f.must(err)
	same(t, "the page before it", len(page), 1)
	same(t, "it", page[0].ID, f.tenant)
}

func TestUpdateTenant(t *testing.T) {
	f := setUp(t)
	day, bytes := int64(1000), int64(1<<30)
	change := func(version int64, to func(*eventhook.Tenant)) (eventhook.Tenant, error) {
		f.clock.Advance(time.Second)
		return f.db.UpdateTenant(t.Context(), operator, "acme", version, func(have eventhook.Tenant) (eventhook.Tenant, error) {
			to(&have)
			return have, nil
		})
	}
	for _, c := range []struct {
		claim   string
		version int64
		to      func(*eventhook.Tenant)
		want    int64 // the version after it
		action  string
	}{
		{"its name, without a version", 0, func(t *eventhook.Tenant) { t.Name = "Acme Inc." }, 2, "tenant.updated"},
		{"its quotas, at the version that was read", 2, func(t *eventhook.Tenant) { t.Quota = eventhook.Quota{MaxEventsPerDay: &day, MaxStorageBytes: &bytes} }, 3, "tenant.updated"},
		{"nothing", 3, func(*eventhook.Tenant) {}, 3, "tenant.updated"},
		{"no quota", 0, func(t *eventhook.Tenant) { t.Quota.MaxEventsPerDay = nil }, 4, "tenant.updated"},
		{"suspended", 0, func(t *eventhook.Tenant) { t.Status = eventhook.TenantSuspended }, 5, "tenant.suspended"},
		{"active again", 0, func(t *eventhook.Tenant) { t.Status = eventhook.TenantActive }, 6, "tenant.activated"},
	} {
		changed, err := change(c.version, c.to)
		f.must(err)
		stored, err := f.other.Tenant(t.Context(), "acme")
		f.must(err)
		stored.CreatedAt, stored.UpdatedAt = stored.CreatedAt.UTC(), stored.UpdatedAt.UTC()
		changed.CreatedAt, changed.UpdatedAt = changed.CreatedAt.UTC(), changed.UpdatedAt.UTC()
		same(t, c.claim+": stored", stored, changed)
		same(t, c.claim+": version", stored.Version, c.want)
		same(t, c.claim+": the audit log's last entry", f.audit(eventhook.AuditFilter{})[0].Action, c.action)
	}
	_, err := change(5, func(t *eventhook.Tenant) { t.Name = "late" })
	wantKind(t, "a stale version", err, eventhook.KindStale)
	_, err = f.db.UpdateTenant(t.Context(), operator, "unknown", 0, nil)
	wantKind(t, "of an unknown tenant", err, eventhook.KindNotFound)
	same(t, "audit entries, one for each update with changes", len(f.audit(eventhook.AuditFilter{Tenant: f.tenant}))-len(acmesEntries), 5)
}

// Of concurrent updates of one version, one succeeds and the rest are stale.
func TestConcurrentUpdatesOfOneTenantVersion(t *testing.T) {
	f := setUp(t)
	kinds := make(chan eventhook.Kind, 4)
	change := func(db *DB, name string) func() {
		return func() {
			_, err := db.UpdateTenant(t.Context(), operator, "acme", 1, func(have eventhook.Tenant) (eventhook.Tenant, error) {
				have.Name = name
				return have, nil
			})
			kinds <- eventhook.KindOf(err)
		}
	}
	concurrently(change(f.db, "a"), change(f.other, "b"), change(f.db, "c"), change(f.other, "d"))
	got := map[eventhook.Kind]int{}
	for range 4 {
		got[<-kinds]++
	}
	same(t, "outcomes", got, map[eventhook.Kind]int{"": 1, eventhook.KindStale: 3})
}

func TestATenantIsLockedWhileItChanges(t *testing.T) {
	f := setUp(t)
	_, err := f.db.UpdateTenant(t.Context(), operator, "acme", 0, func(have eventhook.Tenant) (eventhook.Tenant, error) {
		_, err := f.other.work.Exec(t.Context(), `SELECT FROM eventhook.tenant WHERE slug = 'acme' FOR SHARE NOWAIT`)
		if !hasCode(err, "55P03") { // lock_not_available
			t.Errorf("another transaction can lock it: %v", err)
		}
		return have, nil
	})
	f.must(err)
}

// TestClosingDisablesTheTenantsResources checks the event and the audit entry of each
// resource, and their common correlation id.
func TestClosingDisablesTheTenantsResources(t *testing.T) {
	const sources, keys = 500, 20 // enabled sources and valid keys, beside disabled and expired ones
	f := setUp(t)
	f.exec(`INSERT INTO eventhook.source (id, tenant_id, slug, name, verifier, secrets_count, settings, is_enabled)
		SELECT gen_random_uuid(), tenant_id, 's' || i, name, verifier, secrets_count, settings, i <= $1 FROM eventhook.source, generate_series(1, $1::int + 3) i
		WHERE slug = 'crm'`, sources-2)
	f.exec(`INSERT INTO eventhook.api_key (id, tenant_id, name, prefix, hash, scopes, expires_at)
		SELECT gen_random_uuid(), $1, 'k' || i, 'ehk_', sha256(i::text::bytea), '{read}',
			CASE i % 3 WHEN 0 THEN $3::timestamptz + interval '1 day' END FROM generate_series(1, $2::int) i`, [16]byte(f.tenant), keys, noon)
	_, err := f.db.CreateKey(t.Context(), operator, eventhook.APIKey{TenantID: f.tenant, Name: "over", Scopes: eventhook.Scopes, ExpiresAt: &noon}, hashed("over"))
	f.must(err)
	umbrella := f.secondTenant()
	before := len(f.audit(eventhook.AuditFilter{Tenant: f.tenant}))
	f.clock.Advance(time.Minute)
	by := eventhook.Actor{Type: eventhook.ActorAdmin, Name: "admin key", SourceIP: "192.0.2.1", RequestID: "req-1"}

	closed, err := f.db.CloseTenant(t.Context(), by, "acme")
	f.must(err)
	same(t, "status", closed.Status, eventhook.TenantClosed)
	same(t, "enabled sources", queryValue[int](f, `SELECT count(*) FROM eventhook.source WHERE is_enabled`), 0)
	same(t, "valid keys", queryValue[int](f, `SELECT count(*) FROM eventhook.api_key WHERE expires_at IS NULL OR expires_at > $1`, f.clock.Now()), 0)

	want := map[string]int{"tenant.closed": 1, "source.disabled_via_tenant_cascade": sources, "api_key.revoked_via_tenant_cascade": keys}
	entries := f.audit(eventhook.AuditFilter{Tenant: f.tenant})
	entries = entries[:len(entries)-before]
	correlation := entries[0].CorrelationID
	byAction := map[string]int{}
	for _, e := range entries {
		byAction[e.Action]++
		if e.CorrelationID != correlation || correlation == "" || e.Actor != by || len(e.Changes) != 1 {
			t.Errorf("the entry %+v, want one change by %+v of the correlation %q", e, by, correlation)
		}
	}
	same(t, "audit entries", byAction, want)
	same(t, "the first entry", entries[len(entries)-1].Action, "tenant.closed")
	same(t, "events", f.counts(`SELECT event_type, count(*) FROM eventhook.event
		WHERE tenant_id = $1 AND origin = 'system' AND status = 'delivered' AND correlation_id = $2 AND request_id = 'req-1' GROUP BY 1`, [16]byte(f.tenant), correlation), want)
	same(t, "payloads", queryValue[int](f, `SELECT count(*) FROM eventhook.event e JOIN eventhook.event_payload p ON p.event_id = e.id
		WHERE e.origin = 'system' AND e.correlation_id = $1 AND length(p.body) = e.body_size
		AND convert_from(p.body, 'UTF8')::json->'resource'->>'id' IS NOT NULL`, correlation), len(entries))
	same(t, "of another tenant", len(f.audit(eventhook.AuditFilter{Tenant: umbrella})), 1)
}

func TestClosingIsFinal(t *testing.T) {
	f := setUp(t)
	_, err := f.db.CloseTenant(t.Context(), operator, "acme")
	f.must(err)
	entries := len(f.audit(eventhook.AuditFilter{}))
	key := eventhook.APIKey{TenantID: f.tenant, Name: "late", Scopes: eventhook.Scopes}
	for claim, try := range map[string]func() error{
		"closed again": func() error {
			_, err := f.db.CloseTenant(t.Context(), operator, "acme")
			return err
		},
		"made active": func() error {
			_, err := f.db.UpdateTenant(t.Context(), operator, "acme", 0, func(have eventhook.Tenant) (eventhook.Tenant, error) {
				have.Status = eventhook.TenantActive
				return have, nil
			})
			return err
		},
		"a new key": func() error { _, err := f.db.CreateKey(t.Context(), operator, key, hashed("late")); return err },
		"its slug": func() error {
			_, err := f.db.CreateTenant(t.Context(), operator, eventhook.Tenant{Slug: "acme", Name: "Acme"})
			return err
		},
		"applied again": func() error { _, err := f.db.ApplyTenant(t.Context(), operator, acme(), ApplyOptions{}); return err },
	} {
		wantKind(t, claim, try(), eventhook.KindConflict)
	}
	_, err = f.db.CloseTenant(t.Context(), operator, "unknown")
	wantKind(t, "of an unknown tenant", err, eventhook.KindNotFound)
	same(t, "audit entries about refused changes", len(f.audit(eventhook.AuditFilter{}))-entries, 0)
}

// A key that is created while its tenant closes is either created first and expired, or
// refused.
func TestNoKeyOutlivesItsTenant(t *testing.T) {
	f := setUp(t)
	add := func(name string) func() {
		return func() {
			_, err := f.other.CreateKey(t.Context(), operator, eventhook.APIKey{TenantID: f.tenant, Name: name, Scopes: eventhook.Scopes}, hashed(name))
			if kind := eventhook.KindOf(err); err != nil && kind != eventhook.KindConflict {
				t.Errorf("add: %v", err)
			}
		}
	}
	concurrently(add("a"), add("b"), func() {
		_, err := f.db.CloseTenant(t.Context(), operator, "acme")
		f.must(err)
	}, add("c"), add("d"))
	same(t, "valid keys", queryValue[int](f, `SELECT count(*) FROM eventhook.api_key WHERE expires_at IS NULL`), 0)
}

func TestKeysOfASuspendedTenantCannotChangeAnything(t *testing.T) {
	f := setUp(t)
	f.exec(`UPDATE eventhook.tenant SET status = 'suspended'`)
	its := eventhook.Actor{Type: eventhook.ActorKey, Name: "ci"}
	change := func(by eventhook.Actor) error {
		_, err := f.db.CreateKey(t.Context(), by, eventhook.APIKey{TenantID: f.tenant, Name: "k", Scopes: eventhook.Scopes}, hashed(string(by.Type)))
		return err
	}
	wantKind(t, "by its key", change(its), eventhook.KindForbidden)
	f.must(change(eventhook.Actor{Type: eventhook.ActorOnBehalf, Name: "admin key"}))
	f.must(change(operator))
}

// Open events of a closed tenant must not cost further work.
func TestAClosedTenantRoutesNothing(t *testing.T) {
	f := setUp(t)
	f.apply(acme())
	source := f.source("acme", "crm")
	routed, err := f.db.SourceRouting(t.Context(), source.TenantID, source.ID)
	f.must(err)
	if len(routed.Routes) == 0 {
		t.Fatal("got no routes before, want some")
	}
	_, err = f.db.CloseTenant(t.Context(), operator, "acme")
	f.must(err)
	routed, err = f.db.SourceRouting(t.Context(), source.TenantID, source.ID)
	f.must(err)
	same(t, "routes of a closed tenant", len(routed.Routes), 0)
}
