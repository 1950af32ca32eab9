package pg

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/seal"
)

func TestASubscriptionWhoseKeyIsLost(t *testing.T) {
	f := setUp(t)
	var log bytes.Buffer
	f.other = f.open(func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	s := f.subscription(func(s *eventhook.Subscription) { s.AuthHeader = eventhook.NewSecret("Bearer t0k") })
	f.subscription()
	sealed := queryValue[string](f, `SELECT secrets FROM eventhook.subscription WHERE id = $1`, [16]byte(s.ID))
	f.exec(`UPDATE eventhook.subscription SET secrets = 'enc:0a:x'`)
	_, list, err := f.other.TenantSubscriptions(t.Context(), f.tenant)
	f.must(err)
	same(t, "in a roster", []any{list[0].SecretsLost, list[0].URL.IsZero(), len(list[0].Signing)}, []any{true, true, 0})
	same(t, "log lines about both subscriptions", strings.Count(log.String(), "cannot be opened"), 1)
	same(t, "read alone", f.storedSubscription(s.ID).SecretsLost, true)

	got, err := f.changeSubscription(operator, s, 0, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionPaused })
	f.must(err)
	same(t, "paused", []any{got.SecretsLost, got.Status}, []any{true, eventhook.SubscriptionPaused})
	same(t, "the sealed text stays", queryValue[string](f, `SELECT secrets FROM eventhook.subscription WHERE id = $1`, [16]byte(s.ID)), "enc:0a:x")
	for claim, give := range map[string]func(*eventhook.Subscription){
		"a URL alone": func(s *eventhook.Subscription) { s.URL = eventhook.NewSecret("https://b.example") },
		"a secret alone": func(s *eventhook.Subscription) {
			s.Signing = []eventhook.SigningSecret{{Secret: eventhook.NewSigningSecret()}}
		},
		"a header alone": func(s *eventhook.Subscription) { s.AuthHeader = eventhook.NewSecret("x") },
	} {
		_, err := f.changeSubscription(operator, s, 0, give)
		wantKind(t, claim, err, eventhook.KindConflict)
	}
	if _, err := f.db.TenantConfig(t.Context(), "acme"); err == nil || !strings.Contains(err.Error(), "acme/billing") {
		t.Errorf("exported: got %v, want the subscription named", err)
	}
	got, err = f.changeSubscription(operator, s, 0, func(s *eventhook.Subscription) {
		s.URL, s.Signing = eventhook.NewSecret("https://b.example"), []eventhook.SigningSecret{{Secret: eventhook.NewSigningSecret()}}
	})
	f.must(err)
	same(t, "all secrets set again", got.SecretsLost, false)
	f.sameSubscription("stored", f.storedSubscription(s.ID), got)
	f.exec(`UPDATE eventhook.subscription SET secrets = $1`, sealed)
	same(t, "the key is restored", f.storedSubscription(s.ID).AuthHeader.Reveal(), "Bearer t0k")
}

func TestSubscriptionsAreResealed(t *testing.T) {
	r := newResealFixture(t, asItIs)
	made := r.newSubscription()
	made.Auth = eventhook.Auth{Type: "oauth2", TokenURL: "https://a.example/?a&b", ClientID: "c", ClientSecret: "<hush>", Scopes: []string{"a"}}.Seal()
	s, err := r.older.CreateSubscription(t.Context(), operator, made)
	r.must(err)
	before, _, err := r.older.TenantSubscriptions(t.Context(), r.tenant)
	r.must(err)
	same(t, "resealed", r.reseal(quiet), Resealed{Count: 4})
	got, err := r.newer.Subscription(t.Context(), r.tenant, s.ID)
	r.must(err)
	r.sameSubscription("with the newer key alone", got, s)
	same(t, "auth with the newer key alone", got.Auth.Reveal(), made.Auth.Reveal())
	generation, _, err := r.newer.TenantSubscriptions(t.Context(), r.tenant)
	r.must(err)
	same(t, "the generation", generation, before)
}

// BenchmarkTenantSubscriptions reads ten thousand subscriptions.
func BenchmarkTenantSubscriptions(b *testing.B) {
	ring, err := seal.New(seal.NewKey())
	if err != nil {
		b.Fatal(err)
	}
	f := benchFixture(b, func(o *Options) { o.Sealer = ring })
	c := manySubscriptions(10_000)
	f.apply(c)
	tenant, err := f.db.Tenant(b.Context(), c.Slug)
	f.must(err)
	for b.Loop() {
		_, list, err := f.db.TenantSubscriptions(b.Context(), tenant.ID)
		f.must(err)
		if len(list) != 10_000 || list[0].SecretsLost {
			b.Fatal("subscriptions are missing")
		}
	}
}
