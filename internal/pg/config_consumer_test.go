package pg

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/seal"
)

// queueOf returns a queue with a password.
func queueOf(password string) *eventhook.Target {
	return &eventhook.Target{Type: "amqp", Settings: json.RawMessage(`{"password":"[redacted]","queue":"orders","url":"amqp://a.example","username":"u"}`),
		Secrets: eventhook.NewSecret(`{"password":"` + password + `"}`)}
}

// consuming returns the configuration of acme with a source that consumes messages.
func consuming(slug string, consume *eventhook.Target) eventhook.TenantConfig {
	c := acme()
	c.Sources = append(c.Sources, eventhook.SourceConfig{Source: eventhook.Source{Slug: slug, Name: slug, IsEnabled: true,
		Verifier: eventhook.NewSecret(`{}`), Consume: consume}})
	return c
}

func TestTheBrokerOfASourceIsStoredSealed(t *testing.T) {
	f := setUp(t)
	f.apply(consuming("queue", queueOf("hush")))
	if row := queryValue[string](f, `SELECT s::text FROM eventhook.source s WHERE slug = 'queue'`); strings.Contains(row, "hush") || strings.Count(row, "enc2:test:") != 2 {
		t.Errorf("the row is %s, want it sealed", row)
	}
	s, err := f.db.FindSource(t.Context(), "acme", "queue")
	f.must(err)
	same(t, "found", s.Consume, queueOf("hush"))
	if text := fmt.Sprintf("%+v %s", s, audited(f)); strings.Contains(text, "hush") {
		t.Errorf("the password is shown: %s", text)
	}
	copies, err := f.db.SourceCopiesOf(t.Context(), "acme", "queue")
	f.must(err)
	copied, err := f.db.OpenSourceCopy(copies[0].Value)
	f.must(err)
	same(t, "copied", copied.Consume, queueOf("hush"))
	if strings.Contains(string(copies[0].Value), "hush") {
		t.Errorf("the copy shows the password: %s", copies[0].Value)
	}
	same(t, "applied again", changeOf(f.apply(consuming("queue", queueOf("hush")))).Action, unchanged)
	change := changeOf(f.apply(consuming("queue", queueOf("other"))))
	same(t, "another password", change.Fields, []eventhook.FieldChange{secretsChanged})
}

func changeOf(list []eventhook.Change) eventhook.Change {
	return list[slices.IndexFunc(list, func(c eventhook.Change) bool { return c.Name == "acme/queue" })]
}

// audited returns all audit entries.
func audited(f *fixture) string {
	return queryValue[string](f, `SELECT string_agg(a::text, ' ') FROM eventhook.audit_log a`)
}

func TestASourceThatConsumesMessagesHasALease(t *testing.T) {
	f := setUp(t)
	leases := func() int { return queryValue[int](f, `SELECT count(*) FROM eventhook.source_consumer`) }
	f.apply(consuming("queue", queueOf("a")))
	same(t, "leases of a new source", leases(), 1)
	f.apply(consuming("queue", nil))
	same(t, "leases of a source that receives webhooks now", leases(), 0)
	f.apply(consuming("queue", queueOf("a")))
	same(t, "leases of a source that consumes again", leases(), 1)
	f.must(f.db.DeleteSource(t.Context(), operator, f.tenant, "queue", 0, true))
	same(t, "leases of a deleted source", leases(), 0)
}

func TestTheSourcesThatConsumeMessagesAreBounded(t *testing.T) {
	f := setUp(t)
	c := acme()
	for i := range eventhook.MaxConsumers + 1 {
		c.Sources = append(c.Sources, consuming(fmt.Sprint("q", i), queueOf("a")).Sources[len(acme().Sources)])
	}
	if _, err := f.db.ApplyTenant(t.Context(), operator, c, ApplyOptions{}); eventhook.KindOf(err) != eventhook.KindConflict {
		t.Errorf("got %v, want a conflict", err)
	}
	c.Sources = c.Sources[:len(c.Sources)-1]
	f.apply(c)
	one := consuming("more", queueOf("a")).Sources[len(acme().Sources)].Source
	one.TenantID = f.tenant
	if _, err := f.db.CreateSource(t.Context(), operator, one); eventhook.KindOf(err) != eventhook.KindConflict {
		t.Errorf("got %v, want a conflict", err)
	}
}

func TestTheSecretsOfABrokerSurviveAnUpdateWithoutTheirKey(t *testing.T) {
	f := setUp(t)
	f.apply(consuming("queue", queueOf("hush")))
	ring, err := seal.New(seal.NewKey())
	f.must(err)
	other := f.open(func(o *Options) { o.Sealer = ring })
	s, err := other.Source(t.Context(), f.tenant, "queue")
	f.must(err)
	if !s.Verifier.IsZero() || !s.Consume.Secrets.IsZero() {
		t.Error("secrets open without their key")
	}
	rename := func(s eventhook.Source) (eventhook.Source, error) {
		s.Name = "renamed"
		return s, nil
	}
	_, err = f.db.UpdateSource(t.Context(), operator, f.tenant, "queue", 0, func(s eventhook.Source) (eventhook.Source, error) {
		s.Consume = &eventhook.Target{Type: s.Consume.Type, Settings: s.Consume.Settings} // as if the key were lost
		return rename(s)
	})
	f.must(err)
	s, err = f.db.FindSource(t.Context(), "acme", "queue")
	f.must(err)
	same(t, "after the update", s.Consume, queueOf("hush"))
}
