package pg

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/clocktest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// globexWith returns the configuration of globex without sources and with subscriptions.
func globexWith(list ...eventhook.Subscription) eventhook.TenantConfig {
	return globex(func(c *eventhook.TenantConfig) { c.Sources, c.Subscriptions = nil, list })
}

// fileSubscription is a subscription as a configuration file has it.
func fileSubscription(name string, change ...func(*eventhook.Subscription)) eventhook.Subscription {
	s := eventhook.Subscription{Name: name, EventTypes: []string{"payment.*"}}
	s.URL = eventhook.NewSecret("https://billing.example/hooks")
	s.Signing = []eventhook.SigningSecret{{Secret: eventhook.NewSecret("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")}}
	for _, c := range change {
		c(&s)
	}
	return s
}

func manySubscriptions(n int) eventhook.TenantConfig {
	c := globexWith()
	for i := range n {
		c.Subscriptions = append(c.Subscriptions, fileSubscription(fmt.Sprintf("subscription-%d", i), func(s *eventhook.Subscription) {
			s.EventTypes = []string{fmt.Sprintf("kind-%d.*", i)}
		}))
	}
	return c
}

// A configuration file names the URL together with all secrets that are sent to it.
func TestApplyKeepsNoSecretForAnotherURL(t *testing.T) {
	f := setUp(t)
	s := f.subscription(func(s *eventhook.Subscription) {
		s.AuthHeader, s.Headers = eventhook.NewSecret("Bearer t0k"), map[string]string{"X-Env": "prod"}
	})
	signing := f.storedSubscription(s.ID).Signing[0].Secret
	moved := eventhook.Subscription{Name: s.Name, EventTypes: s.EventTypes}
	moved.URL = eventhook.NewSecret("https://elsewhere.example")
	c := acme()
	c.Subscriptions = []eventhook.Subscription{moved}
	f.apply(c)
	got := f.storedSubscription(s.ID)
	same(t, "the URL, auth header and headers", []any{got.URL.Reveal(), got.AuthHeader.IsZero(), len(got.Headers)}, []any{"https://elsewhere.example", true, 0})
	same(t, "the signing secret stays", got.Signing[0].Secret.Equal(signing), true)
}

func TestApplySubscriptionsReportsItsChanges(t *testing.T) {
	f := setUp(t)
	with := func(change func(*eventhook.Subscription)) eventhook.TenantConfig {
		return globexWith(fileSubscription("billing", change))
	}
	plain := globexWith(fileSubscription("billing"))
	plan := func(action eventhook.ChangeAction, fields ...eventhook.FieldChange) []eventhook.Change {
		return []eventhook.Change{{Action: unchanged, Kind: "tenant", Name: "globex"}, {Action: action, Kind: "subscription", Name: "globex/billing", Fields: fields}}
	}
	f.apply(globexWith())
	filtered := func(filter string) eventhook.TenantConfig {
		return with(func(s *eventhook.Subscription) { s.Filter = []byte(filter) })
	}
	of := func(name, from, to string) eventhook.FieldChange { return field(name, from, to)[0] }
	const was, is = `"[redacted]"`, `"[redacted, changed]"`
	for _, c := range []struct {
		claim string
		want  eventhook.TenantConfig
		plan  []eventhook.Change
	}{
		{"a new one", plain, plan(create)},
		{"the same", plain, plan(unchanged)},
		{"other types", with(func(s *eventhook.Subscription) { s.EventTypes = []string{"*"} }), plan(update, of("event_types", `["payment.*"]`, `["*"]`))},
		{"the old types, a filter", filtered(`{"body.a": 1.50}`), plan(update, of("event_types", `["*"]`, `["payment.*"]`), of(`filter["body.a"]`, "null", "1.50"))},
		{"a filter that says the same", filtered(`{"body.\u0061":1.50}`), plan(unchanged)},
		{"no filter", plain, plan(update, of(`filter["body.a"]`, "1.50", "null"))},
		{"a setting", with(func(s *eventhook.Subscription) { s.Retry.MaxRetries = new(0) }), plan(update, of("retry.max_retries", "null", "0"))},
		{"no setting, an auth header", with(func(s *eventhook.Subscription) { s.AuthHeader = eventhook.NewSecret("hush") }),
			plan(update, of("retry.max_retries", "0", "null"), of("auth_header", "null", was))},
		{"no auth header, another URL", with(func(s *eventhook.Subscription) { s.URL = eventhook.NewSecret("https://b.example") }),
			plan(update, of("url", was, is), of("auth_header", was, "null"))},
		{"the old URL, auth", with(func(s *eventhook.Subscription) {
			s.Auth = eventhook.Auth{Type: "basic", Username: "u", Password: "hush"}.Seal()
		}), plan(update, of("url", was, is), of("auth", "null", was))},
		{"another password, another URL", with(func(s *eventhook.Subscription) {
			s.URL, s.Auth = eventhook.NewSecret("https://b.example"), eventhook.Auth{Type: "basic", Username: "u", Password: "other"}.Seal()
		}), plan(update, of("url", was, is), of("auth", was, is))},
		{"no auth", with(func(s *eventhook.Subscription) { s.URL = eventhook.NewSecret("https://b.example") }), plan(update, of("auth", was, "null"))},
		{"the old URL, no secret", with(func(s *eventhook.Subscription) { s.Signing = nil }), plan(update, of("url", was, is))},
		{"another secret", with(func(s *eventhook.Subscription) {
			s.Signing[0].Secret = eventhook.NewSecret("whsec_" + strings.Repeat("B", 32))
		}), plan(update, of("signing_secret", was, is))},
		{"the old secret", plain, plan(update, of("signing_secret", was, is))},
		{"paused", with(func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionPaused }), plan(update, of("status", `"active"`, `"paused"`))},
		{"neither", plain, plan(unchanged)},
		{"active", with(func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionActive }), plan(update, of("status", `"paused"`, `"active"`))},
	} {
		f.clock.Advance(time.Second)
		same(t, c.claim+", dry", f.applyWith(c.want, ApplyOptions{DryRun: true}), c.plan)
		same(t, c.claim, f.applyWith(c.want, ApplyOptions{}), c.plan)
		for _, change := range f.applyWith(c.want, ApplyOptions{Prune: true}) {
			same(t, c.claim+", again: "+change.Name, change.Action, unchanged)
		}
	}
	got, err := f.db.TenantConfig(t.Context(), "globex")
	f.must(err)
	signing := got.Subscriptions[0].Signing
	same(t, "the secret", signing[0].Secret.Reveal(), plain.Subscriptions[0].Signing[0].Secret.Reveal())
	same(t, "the former one signs for a while", len(signing) == 2 && signing[1].ExpiresAt.After(f.clock.Now()), true)
}

func TestPruneDeletesSubscriptionsThatAreNotNamed(t *testing.T) {
	f := setUp(t)
	f.apply(globexWith(fileSubscription("a"), fileSubscription("b"), fileSubscription("c")))
	f.exec(`INSERT INTO eventhook.subscription_health (subscription_id) SELECT id FROM eventhook.subscription`)
	less := globexWith(fileSubscription("b"))
	stays := []eventhook.Change{{Action: unchanged, Kind: "tenant", Name: "globex"}, {Action: unchanged, Kind: "subscription", Name: "globex/b"}}
	same(t, "without prune", f.applyWith(less, ApplyOptions{}), stays)
	pruned := append(stays, eventhook.Change{Action: remove, Kind: "subscription", Name: "globex/a"}, eventhook.Change{Action: remove, Kind: "subscription", Name: "globex/c"})
	same(t, "dry", f.applyWith(less, ApplyOptions{DryRun: true, Prune: true}), pruned)
	same(t, "all are stored", f.count("subscription", "true"), 3)
	same(t, "pruned", f.applyWith(less, ApplyOptions{Prune: true}), pruned)
	same(t, "left", f.count("subscription", "name = 'b'"), f.count("subscription", "true"))
	same(t, "their health", f.count("subscription_health", "true"), 1)
}

func TestApplyIdentifiesSubscriptionsByName(t *testing.T) {
	f := setUp(t)
	a, b := f.subscription(), f.subscription()
	c := acme()
	c.Subscriptions = []eventhook.Subscription{fileSubscription("billing")}
	for _, dry := range []bool{true, false} {
		_, err := f.db.ApplyTenant(t.Context(), operator, c, ApplyOptions{DryRun: dry})
		wantKind(t, "two of one name", err, eventhook.KindConflict)
		if err != nil && (!strings.Contains(err.Error(), a.ID.String()) || !strings.Contains(err.Error(), b.ID.String()) || !strings.Contains(err.Error(), `"billing"`)) {
			t.Errorf("got %v, want the ids and the name", err)
		}
	}
	c.Subscriptions[0].Name = "other"
	f.applyWith(c, ApplyOptions{Prune: true})
	same(t, "not named, pruned", f.count("subscription", "name = 'billing'"), 0)
}

func TestApplyReplacesSecretsWhoseKeyIsLost(t *testing.T) {
	f := setUp(t)
	f.apply(globexWith(fileSubscription("billing")))
	f.exec(`UPDATE eventhook.subscription SET secrets = 'enc:0a:x'`)
	_, err := f.db.ApplyTenant(t.Context(), operator, globexWith(fileSubscription("billing", func(s *eventhook.Subscription) { s.Signing = nil })), ApplyOptions{})
	wantKind(t, "without a signing secret", err, eventhook.KindConflict)
	same(t, "with all", f.apply(globexWith(fileSubscription("billing")))[1].Action, update)
	got, err := f.db.TenantConfig(t.Context(), "globex")
	f.must(err)
	same(t, "opened", got.Subscriptions[0].URL.Reveal(), "https://billing.example/hooks")
}

func TestTenThousandSubscriptionsAreAppliedTogether(t *testing.T) {
	const n, maxTrips = 10_000, 120
	f := setUp(t)
	f.apply(globexWith())
	everything := fileSubscription("everything", func(s *eventhook.Subscription) { s.EventTypes = []string{"*"} })
	f.apply(globexWith(everything))
	ctx, stop := context.WithCancel(t.Context())
	received, ready := make(chan ConfigChange, 4*n), make(chan struct{})
	ended := make(chan error)
	go func() {
		ended <- f.other.Listen(ctx, func(c ConfigChange) {
			if (c == ConfigChange{}) {
				close(ready)
			}
			received <- c
		})
	}()
	<-ready
	trips := f.countTrips()
	c := manySubscriptions(n)
	for claim, want := range map[string]int{"created": n, "changed": n} {
		before := trips.Load()
		f.apply(c)
		if took := trips.Load() - before; took > maxTrips {
			t.Errorf("%s: %d round trips, want at most %d", claim, took, maxTrips)
		}
		same(t, claim, f.count("subscription", "name LIKE 'subscription-%'"), want)
		for i := range c.Subscriptions {
			c.Subscriptions[i].MaxInFlight++
		}
	}
	missing := map[eventhook.SubscriptionID]int{}
	for range 2 * n {
		missing[(<-received).SubscriptionID]++
	}
	same(t, "notifications", len(missing), n+1) // including the first, which is zero
	tenant, err := f.db.Tenant(t.Context(), "globex")
	f.must(err)
	generation, list, err := f.db.TenantSubscriptions(t.Context(), tenant.ID)
	f.must(err)
	same(t, "the generation and the number of subscriptions", []any{generation, len(list)}, []any{int64(3), n + 1})
	same(t, "deliveries about the changes", f.count("delivery", "true"), 2*n)
	stop()
	f.must(<-ended)
}

func benchFixture(b *testing.B, change ...func(*Options)) *fixture {
	b.Helper()
	f := &fixture{TB: b, dsn: pgtest.New(b), clock: clocktest.New(noon)}
	f.db = f.open(change...)
	return f
}

// BenchmarkApplySubscriptions creates subscriptions, then applies them again.
func BenchmarkApplySubscriptions(b *testing.B) {
	for _, again := range []bool{false, true} {
		b.Run(fmt.Sprintf("again=%v", again), func(b *testing.B) {
			const n = 10_000
			f := benchFixture(b)
			config := manySubscriptions(n)
			if again {
				f.apply(config)
			}
			round := 0
			for b.Loop() {
				if round++; !again {
					config.Slug = fmt.Sprintf("tenant-%d", round)
				}
				f.apply(config)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/subscription")
		})
	}
}
