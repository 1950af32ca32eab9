package pg

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
)

// newSubscription returns a subscription of acme that is not stored yet.
func (f *fixture) newSubscription(change ...func(*eventhook.Subscription)) eventhook.Subscription {
	s := eventhook.Subscription{TenantID: f.tenant, Name: "billing", EventTypes: []string{"payment.*"}}
	s.URL = eventhook.NewSecret("https://billing.example/hooks?token=pl4nted")
	for _, c := range change {
		c(&s)
	}
	return s
}

func (f *fixture) subscription(change ...func(*eventhook.Subscription)) eventhook.Subscription {
	f.Helper()
	s, err := f.db.CreateSubscription(f.Context(), operator, f.newSubscription(change...))
	f.must(err)
	return s
}

func named(name string, types ...string) func(*eventhook.Subscription) {
	return func(s *eventhook.Subscription) { s.Name, s.EventTypes = name, types }
}

// storedSubscription reads a stored subscription.
func (f *fixture) storedSubscription(id eventhook.SubscriptionID) eventhook.Subscription {
	f.Helper()
	s, err := f.other.Subscription(f.Context(), f.tenant, id)
	f.must(err)
	return s
}

func (f *fixture) changeSubscription(by eventhook.Actor, s eventhook.Subscription, version int64, to func(*eventhook.Subscription)) (eventhook.Subscription, error) {
	return f.db.UpdateSubscription(f.Context(), by, s.TenantID, s.ID, version, func(have eventhook.Subscription) (eventhook.Subscription, error) {
		to(&have)
		return have, nil
	})
}

// generation reads the tenant's generation as a publisher does.
func (f *fixture) generation() int64 {
	f.Helper()
	generation, _, err := f.other.TenantSubscriptions(f.Context(), f.tenant)
	f.must(err)
	return generation
}

// newest returns the n newest audit entries of subscriptions as text, oldest first.
func (f *fixture) newest(n int) (entries []string) {
	f.Helper()
	for _, e := range f.audit(eventhook.AuditFilter{Limit: n}) {
		text := e.Action + " " + e.ResourceName
		for _, c := range e.Changes {
			text += " " + c.Field + ":" + string(c.From) + ">" + string(c.To)
		}
		entries = append([]string{text}, entries...)
	}
	return entries
}

var sameSecret = cmp.Comparer(eventhook.Secret.Equal)

// sameSubscription compares times in one zone.
func (f *fixture) sameSubscription(claim string, got, want eventhook.Subscription) {
	f.Helper()
	for _, s := range []*eventhook.Subscription{&got, &want} {
		s.CreatedAt, s.UpdatedAt = s.CreatedAt.UTC(), s.UpdatedAt.UTC()
	}
	if diff := cmp.Diff(want, got, sameSecret); diff != "" {
		f.Errorf("%s (-want +got):\n%s", claim, diff)
	}
}

func TestSubscriptionsAreStoredUnchanged(t *testing.T) {
	f := setUp(t)
	expires := noon.Add(time.Hour)
	full := f.subscription(func(s *eventhook.Subscription) {
		s.Filter = []byte(`{"body.amount": {"$gte": 10.50}}`)
		s.AuthHeader, s.Ed25519Seed = eventhook.NewSecret("Bearer t0k"), eventhook.NewEd25519Seed()
		s.Signing = []eventhook.SigningSecret{{Secret: eventhook.NewSigningSecret()}, {Secret: eventhook.NewSigningSecret(), ExpiresAt: &expires}}
		s.SubscriptionSettings = eventhook.SubscriptionSettings{Headers: map[string]string{"X-Env": "prod"}, TargetLabels: []string{"env:prod"},
			Retry: eventhook.RetryPolicy{MaxRetries: new(0), BackoffMultiplier: 1.5, ScheduleSeconds: []int{1}}, TimeoutSeconds: 5, DisableAfterFailures: new(0),
			MaxInFlight: 3, RatePerSecond: 7, Signatures: []string{"v1", "v1a"}}
	})
	f.clock.Advance(time.Second)
	minimal := f.subscription(named("minimal", "*"))
	for _, want := range []eventhook.Subscription{full, minimal} {
		f.sameSubscription(want.Name, f.storedSubscription(want.ID), want)
	}
	same(t, "its tenant", full.TenantSlug, "acme")
	same(t, "its status", minimal.Status, eventhook.SubscriptionActive)
	same(t, "a missing secret is generated", strings.HasPrefix(minimal.Signing[0].Secret.Reveal(), "whsec_"), true)
	page, err := f.other.Subscriptions(t.Context(), f.tenant, eventhook.SubscriptionFilter{Limit: 1})
	f.must(err)
	f.sameSubscription("the newest", page[0], minimal)
	page, err = f.other.Subscriptions(t.Context(), f.tenant, eventhook.SubscriptionFilter{Before: minimal.ID, Limit: 10})
	f.must(err)
	same(t, "the page before it", len(page), 1)
	f.sameSubscription("it", page[0], full)

	umbrella := f.secondTenant()
	_, err = f.db.Subscription(t.Context(), umbrella, full.ID)
	wantKind(t, "of another tenant", err, eventhook.KindNotFound)
	page, err = f.db.Subscriptions(t.Context(), umbrella, eventhook.SubscriptionFilter{Limit: 10})
	f.must(err)
	same(t, "another tenant's", len(page), 0)
	if row := queryValue[string](f, `SELECT string_agg(s::text, '|') FROM eventhook.subscription s`); strings.Contains(row, "pl4nted") || strings.Contains(row, "t0k") {
		t.Errorf("a row has a secret in plain text: %s", row)
	}
}

func TestTenantSubscriptionsHaveOneGeneration(t *testing.T) {
	f := setUp(t)
	generation, list, err := f.db.TenantSubscriptions(t.Context(), f.tenant)
	f.must(err)
	same(t, "of a tenant without any", len(list), 0)
	before := generation
	a := f.subscription()
	same(t, "after one was created", f.generation(), before+1)
	_, err = f.changeSubscription(operator, a, 0, func(s *eventhook.Subscription) { s.Name = "a" })
	f.must(err)
	same(t, "after it was changed", f.generation(), before+2)
	_, err = f.changeSubscription(operator, a, 0, func(*eventhook.Subscription) {})
	f.must(err)
	same(t, "after an update without changes", f.generation(), before+2)
	f.clock.Advance(time.Second)
	b := f.subscription(named("b", "*"))
	umbrella := f.secondTenant()
	_, err = f.db.CreateSubscription(t.Context(), operator, f.newSubscription(func(s *eventhook.Subscription) { s.TenantID = umbrella }))
	f.must(err)
	f.exec(`UPDATE eventhook.subscription SET secrets = secrets || '' WHERE id = $1`, [16]byte(b.ID))
	generation, list, err = f.other.TenantSubscriptions(t.Context(), f.tenant)
	f.must(err)
	same(t, "only of acme", []any{generation, len(list)}, []any{before + 4, 2})
	f.sameSubscription("the second, with its former name", list[1], b)
	f.must(f.db.DeleteSubscription(t.Context(), operator, f.tenant, a.ID, 0))
	same(t, "after one was deleted", f.generation(), before+5)
	f.must(f.db.DeleteSubscription(t.Context(), operator, f.tenant, b.ID, 0))
	same(t, "after the last was deleted", f.generation(), before+6)
}

func TestResealingKeepsTheGeneration(t *testing.T) {
	f := setUp(t)
	before := f.generation()
	s := f.subscription()
	f.exec(`UPDATE eventhook.subscription SET secrets = 'enc:other' WHERE id = $1`, [16]byte(s.ID))
	same(t, "resealed", f.generation(), before+1)
	f.exec(`UPDATE eventhook.subscription SET status = 'paused' WHERE id = $1`, [16]byte(s.ID))
	same(t, "another change by SQL", f.generation(), before+2)
	before = f.generation()
	f.exec(`UPDATE eventhook.source SET verifier = 'enc:other' WHERE id = $1`, [16]byte(f.crm))
	f.exec(`UPDATE eventhook.route SET target_secrets = 'enc:other' WHERE source_id = $1`, [16]byte(f.crm))
	same(t, "a source and a route, resealed", f.generation(), before)
	f.exec(`UPDATE eventhook.source SET is_enabled = false WHERE id = $1`, [16]byte(f.crm))
	f.exec(`UPDATE eventhook.route SET target_secrets = NULL WHERE source_id = $1`, [16]byte(f.crm))
	f.exec(`UPDATE eventhook.source SET version = version + 1 WHERE id = $1`, [16]byte(f.crm))
	f.exec(`UPDATE eventhook.route SET priority = priority + 1 WHERE source_id = $1`, [16]byte(f.crm))
	same(t, "three changes of them", f.generation(), before+3)
}

func TestUpdateSubscription(t *testing.T) {
	f := setUp(t)
	s := f.subscription()
	health := func() int {
		return queryValue[int](f, `SELECT coalesce((SELECT dead_in_row FROM eventhook.subscription_health WHERE subscription_id = $1), 0)`, [16]byte(s.ID))
	}
	f.exec(`INSERT INTO eventhook.subscription_health (subscription_id, dead_in_row) VALUES ($1, 9)`, [16]byte(s.ID))
	const changed = `"[redacted]">"[redacted, changed]"`
	for _, c := range []struct {
		claim   string
		version int64
		to      func(*eventhook.Subscription)
		want    []string // entries
		dead    int
	}{
		{"its name", 1, func(s *eventhook.Subscription) { s.Name = "b" }, []string{`webhook.updated b name:"billing">"b"`}, 9},
		{"its URL", 2, func(s *eventhook.Subscription) { s.URL = eventhook.NewSecret("https://b.example") }, []string{"webhook.updated b url:" + changed}, 9},
		{"an auth header", 0, func(s *eventhook.Subscription) { s.AuthHeader = eventhook.NewSecret("hush") }, []string{`webhook.updated b auth_header:null>"[redacted]"`}, 9},
		{"none", 0, func(s *eventhook.Subscription) { s.AuthHeader = eventhook.Secret{} }, []string{`webhook.updated b auth_header:"[redacted]">null`}, 9},
		{"auth", 0, func(s *eventhook.Subscription) {
			s.Auth = eventhook.Auth{Type: "basic", Username: "<u>", Password: "hush"}.Seal()
		}, []string{`webhook.updated b auth:null>"[redacted]"`}, 9},
		{"another password", 0, func(s *eventhook.Subscription) {
			s.Auth = eventhook.Auth{Type: "basic", Username: "<u>", Password: "hush2"}.Seal()
		}, []string{"webhook.updated b auth:" + changed}, 9},
		{"the same auth, and a setting", 0, func(s *eventhook.Subscription) { s.RatePerSecond = 3 }, []string{`webhook.updated b rate_per_second:null>3`}, 9},
		{"no auth", 0, func(s *eventhook.Subscription) { s.Auth = eventhook.Secret{} }, []string{`webhook.updated b auth:"[redacted]">null`}, 9},
		{"a rotated secret", 0, func(s *eventhook.Subscription) {
			s.Signing = eventhook.RotateSigningSecret(s.Signing, eventhook.NewSigningSecret(), noon, time.Hour)
		}, []string{"webhook.updated b signing_secret:" + changed}, 9},
		{"its signature schemes", 0, func(s *eventhook.Subscription) { s.Signatures = []string{"v1a"} }, []string{`webhook.updated b signatures:null>["v1a"] ed25519_key:null>"[redacted]"`}, 9},
		{"paused, and a setting", 0, func(s *eventhook.Subscription) { s.Status, s.MaxInFlight = eventhook.SubscriptionPaused, 3 },
			[]string{`webhook.updated b max_in_flight:null>3`, `webhook.paused b status:"active">"paused"`}, 9},
		{"resumed", 0, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionActive }, []string{`webhook.resumed b status:"paused">"active"`}, 0},
		{"disabled", 0, func(s *eventhook.Subscription) {
			s.Status, s.DisabledReason = eventhook.SubscriptionDisabled, "by hand"
		}, []string{`webhook.disabled b disabled_by:null>"user" disabled_reason:null>"by hand" status:"active">"disabled"`}, 0},
		{"another reason", 0, func(s *eventhook.Subscription) { s.DisabledReason = "why" }, []string{`webhook.updated b disabled_reason:"by hand">"why"`}, 0},
		{"active again", 15, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionActive }, []string{`webhook.resumed b disabled_by:"user">null disabled_reason:"why">null status:"disabled">"active"`}, 0},
	} {
		f.clock.Advance(time.Second)
		before := len(f.audit(eventhook.AuditFilter{}))
		got, err := f.changeSubscription(operator, s, c.version, c.to)
		f.must(err)
		f.sameSubscription(c.claim+": stored", f.storedSubscription(s.ID), got)
		same(t, c.claim+": entries", f.newest(len(f.audit(eventhook.AuditFilter{}))-before), c.want)
		same(t, c.claim+": dead in a row", health(), c.dead)
	}
	_, err := f.changeSubscription(operator, s, 15, func(*eventhook.Subscription) { t.Error("change was called for a stale version") })
	wantKind(t, "a stale version", err, eventhook.KindStale)
	wantKind(t, "deleted at a stale version", f.db.DeleteSubscription(t.Context(), operator, f.tenant, s.ID, 15), eventhook.KindStale)
	refused := errors.New("the caller refuses")
	_, err = f.db.UpdateSubscription(t.Context(), operator, f.tenant, s.ID, 0, func(have eventhook.Subscription) (eventhook.Subscription, error) {
		have.Name = "half-way"
		return have, refused
	})
	same(t, "the caller's refusal", errors.Is(err, refused), true)
	umbrella := f.secondTenant()
	_, err = f.db.UpdateSubscription(t.Context(), operator, umbrella, s.ID, 0, nil)
	wantKind(t, "of another tenant", err, eventhook.KindNotFound)
	wantKind(t, "deleted by another tenant", f.db.DeleteSubscription(t.Context(), operator, umbrella, s.ID, 0), eventhook.KindNotFound)
	f.clock.Advance(time.Second)
	f.must(f.db.DeleteSubscription(t.Context(), operator, f.tenant, s.ID, 16))
	same(t, "its health", f.count("subscription_health", "true"), 0)
	wantKind(t, "deleted twice", f.db.DeleteSubscription(t.Context(), operator, f.tenant, s.ID, 0), eventhook.KindNotFound)
	same(t, "the last entry", strings.HasPrefix(f.newest(1)[0], `webhook.deleted b event_types:["payment.*"]>null`), true)
	if rows := queryValue[string](f, `SELECT string_agg(a::text, '|') FROM eventhook.audit_log a`); strings.Contains(rows, "pl4nted") || strings.Contains(rows, "whsec_") || strings.Contains(rows, "hush") {
		t.Error("the audit log contains a secret")
	}
}

// Of two concurrent updates of one version, one is stale. Of two updates without a version,
// both succeed.
func TestConcurrentUpdatesOfASubscription(t *testing.T) {
	f := setUp(t)
	s := f.subscription()
	results := make(chan error, 8)
	change := func(db *DB, version int64, to func(*eventhook.Subscription)) func() {
		return func() {
			_, err := db.UpdateSubscription(t.Context(), operator, f.tenant, s.ID, version, func(have eventhook.Subscription) (eventhook.Subscription, error) {
				to(&have)
				return have, nil
			})
			results <- err
		}
	}
	concurrently(change(f.db, 1, func(s *eventhook.Subscription) { s.Name = "a" }), change(f.other, 1, func(s *eventhook.Subscription) { s.Name = "b" }))
	first, second := <-results, <-results
	same(t, "of one version", (first == nil) != (second == nil), true)
	more := func(s *eventhook.Subscription) { s.MaxInFlight++ }
	concurrently(change(f.db, 0, more), change(f.other, 0, more), change(f.db, 0, more), change(f.other, 0, more))
	for range 4 {
		f.must(<-results)
	}
	same(t, "of any version", f.storedSubscription(s.ID).MaxInFlight, 4)
	same(t, "the version", f.storedSubscription(s.ID).Version, int64(6))
}

func TestSubscriptionsOfATenantAreLimited(t *testing.T) {
	f := setUp(t)
	s := f.subscription()
	f.exec(`INSERT INTO eventhook.subscription SELECT gen_random_uuid(), tenant_id, name, status, disabled_reason, event_types, filter, settings, secrets, version, created_at, updated_at
		FROM eventhook.subscription, generate_series(1, $1::int)`, eventhook.MaxSubscriptions-3)
	results := make(chan eventhook.Kind, 4)
	add := func(db *DB) func() {
		return func() {
			_, err := db.CreateSubscription(t.Context(), operator, f.newSubscription())
			results <- eventhook.KindOf(err)
		}
	}
	concurrently(add(f.db), add(f.other), add(f.db), add(f.other))
	got := map[eventhook.Kind]int{}
	for range 4 {
		got[<-results]++
	}
	same(t, "concurrent creations up to the limit", got, map[eventhook.Kind]int{"": 2, eventhook.KindConflict: 2})
	same(t, "in all", f.count("subscription", "true"), eventhook.MaxSubscriptions)
	_, err := f.changeSubscription(operator, s, 0, func(s *eventhook.Subscription) { s.Name = "as before" })
	f.must(err)
	c := acme()
	c.Subscriptions = []eventhook.Subscription{f.newSubscription(named("one more", "*"))}
	_, err = f.db.ApplyTenant(t.Context(), operator, c, ApplyOptions{})
	wantKind(t, "one more in a configuration", err, eventhook.KindConflict)
	c.Subscriptions[0].Name = "as before"
	f.apply(c)
	f.applyWith(c, ApplyOptions{Prune: true})
	same(t, "pruned", f.count("subscription", "true"), 1)
}

func TestSubscriptionsOfClosedAndSuspendedTenants(t *testing.T) {
	f := setUp(t)
	s := f.subscription()
	key := eventhook.Actor{Type: eventhook.ActorKey, Name: "ci"}
	_, err := f.db.UpdateTenant(t.Context(), operator, "acme", 0, func(have eventhook.Tenant) (eventhook.Tenant, error) {
		have.Status = eventhook.TenantSuspended
		return have, nil
	})
	f.must(err)
	_, err = f.changeSubscription(key, s, 0, func(s *eventhook.Subscription) { s.Name = "x" })
	wantKind(t, "changed by a suspended tenant", err, eventhook.KindForbidden)
	same(t, "unchanged", f.storedSubscription(s.ID).Status, eventhook.SubscriptionActive)
	_, err = f.db.CloseTenant(t.Context(), operator, "acme")
	f.must(err)
	_, err = f.db.CreateSubscription(t.Context(), operator, f.newSubscription())
	wantKind(t, "created for a closed tenant", err, eventhook.KindConflict)
	wantKind(t, "deleted of a closed tenant", f.db.DeleteSubscription(t.Context(), operator, f.tenant, s.ID, 0), eventhook.KindConflict)
}

func TestClosingDisablesSubscriptions(t *testing.T) {
	f := setUp(t)
	active, paused, disabled := f.subscription(named("a", "*")), f.subscription(named("p", "webhook.*")), f.subscription()
	for s, to := range map[eventhook.SubscriptionID]eventhook.SubscriptionStatus{paused.ID: eventhook.SubscriptionPaused, disabled.ID: eventhook.SubscriptionDisabled} {
		_, err := f.changeSubscription(operator, eventhook.Subscription{TenantID: f.tenant, ID: s}, 0, func(s *eventhook.Subscription) { s.Status = to })
		f.must(err)
	}
	before, deliveries := f.generation(), f.count("delivery", "true")
	_, err := f.db.CloseTenant(t.Context(), operator, "acme")
	f.must(err)
	for _, s := range []eventhook.Subscription{active, paused} {
		got := f.storedSubscription(s.ID)
		same(t, s.Name, []any{got.Status, got.DisabledReason}, []any{eventhook.SubscriptionDisabled, "the tenant was closed"})
	}
	same(t, "the generation", f.generation(), before+1)
	entries := f.audit(eventhook.AuditFilter{Action: "webhook.disabled_via_tenant_cascade"})
	same(t, "entries", len(entries), 2)
	closing := f.audit(eventhook.AuditFilter{Action: "tenant.closed"})[0]
	for _, e := range entries {
		same(t, "the correlation", e.CorrelationID, closing.CorrelationID)
	}
	same(t, "events", f.count("event", "event_type = 'webhook.disabled_via_tenant_cascade' AND correlation_id = $1", closing.CorrelationID), 2)
	same(t, "all of the admin", f.count("delivery", "true"), deliveries)
}
