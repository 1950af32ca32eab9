package pg

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

func TestASecretIsLearnedOnce(t *testing.T) {
	f := setUp(t)
	crm, other := f.source("acme", "crm"), f.source("acme", "shop")
	id := crm.ID
	learn := func(s string) error { return f.db.StoreLearnedSecret(t.Context(), id, eventhook.NewSecret(s)) }
	learned := func() (texts []string) {
		for _, s := range f.source("acme", "crm").LearnedSecrets {
			texts = append(texts, s.Reveal())
		}
		return texts
	}
	_, _, err := f.db.LearnedSecret(t.Context(), id)
	wantKind(t, "before", err, eventhook.KindNotFound)
	_, err = f.db.RevealSecret(t.Context(), operator, crm)
	wantKind(t, "no learned secret", err, eventhook.KindConflict)

	f.must(learn("first-secret"))
	wantKind(t, "another", learn("second-secret"), eventhook.KindConflict)
	if got := learned(); !slices.Equal(got, []string{"first-secret"}) {
		t.Errorf("learned %v, want the first", got)
	}
	if row := queryValue[string](f, `SELECT l::text FROM eventhook.learned_secret l`); strings.Contains(row, "first-secret") || !strings.Contains(row, "enc2:test:") {
		t.Errorf("the row is %s, want it sealed", row)
	}
	if got := f.source("acme", "shop").LearnedSecrets; len(got) > 0 {
		t.Errorf("another source learned %d secrets", len(got))
	}
	_, err = f.db.RevealSecret(t.Context(), operator, other)
	wantKind(t, "of another source", err, eventhook.KindConflict)
	shown, err := f.db.RevealSecret(t.Context(), operator, crm)
	f.must(err)
	same(t, "shown", shown.Reveal(), "first-secret")
	_, err = f.db.RevealSecret(t.Context(), operator, crm)
	wantKind(t, "shown again", err, eventhook.KindConflict)
	_, revealed, err := f.db.LearnedSecret(t.Context(), id)
	f.must(err)
	if revealed == nil {
		t.Error("not marked as shown")
	}

	f.must(f.db.ResetHandshake(t.Context(), operator, crm))
	f.must(f.db.ResetHandshake(t.Context(), operator, crm))
	f.must(learn("third-secret"))
	if got := learned(); !slices.Equal(got, []string{"third-secret"}) {
		t.Errorf("learned %v, want the third", got)
	}
	wantKind(t, "an unknown source", f.db.StoreLearnedSecret(t.Context(), eventhook.NewID[eventhook.Source](f.db.now()), eventhook.NewSecret("s")), eventhook.KindConflict)
}

// The window opens when the source is created, and again after a reset, with another provider,
// or when the source loses its own secrets.
func TestWhenTheHandshakeWindowOpens(t *testing.T) {
	f := setUp(t)
	opened := func(claim string, want time.Time) {
		t.Helper()
		same(t, claim, f.source("acme", "crm").HandshakeOpenedAt.UTC(), want)
	}
	change := func(to func(*eventhook.Source)) {
		t.Helper()
		f.clock.Advance(time.Minute)
		_, err := f.db.UpdateSource(t.Context(), operator, f.tenant, "crm", 0, func(s eventhook.Source) (eventhook.Source, error) {
			to(&s)
			return s, nil
		})
		f.must(err)
	}
	created := f.source("acme", "crm").CreatedAt.UTC()
	opened("created", created)
	change(func(s *eventhook.Source) { s.Name = "renamed" })
	opened("renamed", created)
	change(func(s *eventhook.Source) { s.Provider = "asana" })
	opened("another provider", f.clock.Now())
	f.clock.Advance(time.Hour)
	f.must(f.db.ResetHandshake(t.Context(), operator, f.source("acme", "crm")))
	opened("reset", f.clock.Now())
	reset := f.clock.Now()
	f.exec(`UPDATE eventhook.source SET secrets_count = 1`)
	change(func(s *eventhook.Source) { s.Name = "again" })
	opened("with a secret", reset)
	change(func(s *eventhook.Source) { s.Name, s.SecretsCount = "without", 0 })
	opened("without its secret", f.clock.Now())
}

func TestInstancesAreNotifiedOfARevealedSecret(t *testing.T) {
	f := setUp(t)
	crm := f.source("acme", "crm")
	f.must(f.db.StoreLearnedSecret(t.Context(), crm.ID, eventhook.NewSecret("learned")))
	same(t, "before", f.source("acme", "crm").SecretRevealed, false)
	conn, err := pgx.Connect(t.Context(), f.dsn)
	f.must(err)
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(t.Context(), `LISTEN eventhook_config`)
	f.must(err)
	_, err = f.db.RevealSecret(t.Context(), operator, crm)
	f.must(err)
	same(t, "after", f.source("acme", "crm").SecretRevealed, true)
	got, err := conn.WaitForNotification(t.Context())
	f.must(err)
	if !strings.HasPrefix(got.Payload, "source "+crm.ID.String()) {
		t.Errorf("notified %q, want the source", got.Payload)
	}
}

// A configuration without secrets keeps the learned secret unless it changes the provider.
func TestApplyKeepsTheLearnedSecret(t *testing.T) {
	f := setUp(t)
	f.must(f.db.StoreLearnedSecret(t.Context(), f.source("acme", "crm").ID, eventhook.NewSecret("learned")))
	c := acme()
	for i := range c.Sources {
		c.Sources[i].SecretsCount = 0
	}
	apply := func(want int) {
		t.Helper()
		_, err := f.db.ApplyTenant(t.Context(), operator, c, ApplyOptions{})
		f.must(err)
		same(t, "learned secrets", len(f.source("acme", "crm").LearnedSecrets), want)
	}
	apply(1)
	for i := range c.Sources {
		c.Sources[i].Name = "renamed"
	}
	apply(1)
	for i := range c.Sources {
		c.Sources[i].Provider, c.Sources[i].Verifier = "another", eventhook.NewSecret(`{"provider":"another"}`)
	}
	apply(0)
	f.must(f.db.StoreLearnedSecret(t.Context(), f.source("acme", "crm").ID, eventhook.NewSecret("learned")))
	apply(1)
	for i := range c.Sources {
		c.Sources[i].SecretsCount = 1
	}
	apply(0) // the configured secret has replaced the learned one
}

func TestFastlyServices(t *testing.T) {
	f := setUp(t)
	c := acme()
	fastly := func(slug, services string, enabled bool) eventhook.SourceConfig {
		return eventhook.SourceConfig{Source: eventhook.Source{Slug: slug, Name: slug, Provider: "fastly", IsEnabled: enabled,
			Verifier: eventhook.NewSecret(`{"provider":"fastly","options":{"service_ids":"` + services + `"}}`)}}
	}
	c.Sources = append(c.Sources, fastly("a", "one, two", true), fastly("b", "three", false), fastly("c", "two", true))
	_, err := f.db.ApplyTenant(t.Context(), operator, c, ApplyOptions{})
	f.must(err)
	got, err := f.db.FastlyServices(t.Context())
	f.must(err)
	slices.Sort(got)
	if !slices.Equal(got, []string{"one", "two", "two"}) {
		t.Errorf("services %v, want the services of the enabled sources", got)
	}
	f.exec(`UPDATE eventhook.tenant SET status = 'suspended' WHERE slug = 'acme'`)
	got, err = f.db.FastlyServices(t.Context())
	f.must(err)
	same(t, "services of a suspended tenant", len(got), 0)
}

func TestOneTenantCannotUseUpTheFastlyServices(t *testing.T) {
	f := setUp(t)
	fastly := func(n int, service string) eventhook.SourceConfig {
		return eventhook.SourceConfig{Source: eventhook.Source{Slug: fmt.Sprint("s", n), Name: "s", Provider: "fastly", IsEnabled: true,
			Verifier: eventhook.NewSecret(`{"provider":"fastly","options":{"service_ids":"` + service + `"}}`)}}
	}
	greedy := eventhook.TenantConfig{Tenant: eventhook.Tenant{Slug: "greedy", Name: "Greedy"}}
	for n := range 120 {
		greedy.Sources = append(greedy.Sources, fastly(n, "greedys"))
	}
	modest := eventhook.TenantConfig{Tenant: eventhook.Tenant{Slug: "modest", Name: "Modest"}, Sources: []eventhook.SourceConfig{fastly(0, "modests")}}
	for _, c := range []eventhook.TenantConfig{greedy, modest} {
		_, err := f.db.ApplyTenant(t.Context(), operator, c, ApplyOptions{})
		f.must(err)
	}
	got, err := f.db.FastlyServices(t.Context())
	f.must(err)
	same(t, "services", len(got), 101)
	if !slices.Contains(got, "modests") {
		t.Error("got no service of the tenant with one source")
	}
}

func (f *fixture) source(tenant, slug string) eventhook.Source {
	f.Helper()
	s, err := f.db.FindSource(f.Context(), tenant, slug)
	f.must(err)
	return s
}
