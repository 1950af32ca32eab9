package pg

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/seal"
)

// secretTarget returns a target with a secret. Special characters of URLs, and quotes, must not
// change.
func secretTarget(host, secret string) eventhook.Target {
	return eventhook.Target{Type: "http", Settings: json.RawMessage(`{"auth_header":"[redacted]","headers":{"Long-Name":"1","X":"a"},"url":"https://` + host + `/?a&b=<c>"}`),
		Secrets: eventhook.NewSecret(`{"auth_header":"` + secret + `"}`)}
}

var plainTarget = eventhook.Target{Type: "task", Settings: json.RawMessage(`{"task_kind":"k"}`)}

// acmeWithTargets returns acme with a route to the targets.
func acmeWithTargets(targets ...eventhook.Target) eventhook.TenantConfig {
	c := acme()
	c.Sources[0].Routes[0].Targets = targets
	return c
}

const targetSecret = "hush & <hush>"

// targets returns the targets of crm's route, as the processor reads them.
func (f *fixture) targets(db *DB) []eventhook.Target {
	f.Helper()
	routed, err := db.SourceRouting(f.Context(), f.tenant, f.crm)
	f.must(err)
	return routed.Routes[0].Targets
}

func TestSecretsOfTargetsAreSealed(t *testing.T) {
	f := setUp(t)
	want := []eventhook.Target{plainTarget, secretTarget("a.example", targetSecret), plainTarget, secretTarget("b.example", "other")}
	f.apply(acmeWithTargets(want...))
	if row := queryValue[string](f, `SELECT r::text FROM eventhook.route r`); strings.Contains(row, "hush") || !strings.Contains(row, "enc2:test:") {
		t.Errorf("the row is %s, want it sealed", row)
	}
	same(t, "opened", f.targets(f.db), want)
	for _, c := range f.apply(acmeWithTargets(want...)) {
		same(t, "applied again: "+c.Name, c.Action, unchanged)
	}
	f.clock.Advance(time.Second)
	changes := f.apply(acmeWithTargets(want[0], secretTarget("a.example", "new"), want[2], want[3]))
	i := slices.IndexFunc(changes, func(c eventhook.Change) bool { return c.Kind == "route" })
	same(t, "another secret", changes[i].Fields, []eventhook.FieldChange{secretsChanged})
	e := f.lastEntry("another secret", "route.updated", "crm/all", "secrets")
	same(t, "audited", e.Changes, []eventhook.FieldChange{secretsChanged})
	same(t, "stored", f.targets(f.db)[1].Secrets.Reveal(), `{"auth_header":"new"}`)
	if log := queryValue[string](f, `SELECT string_agg(changes::text, ' ') FROM eventhook.audit_log`); strings.Contains(log, "hush") || !strings.Contains(log, "redacted") {
		t.Errorf("the audit log is %s, want no secret in it", log)
	}
	f.apply(acmeWithTargets(plainTarget))
	same(t, "without secrets", f.count("route", "target_secrets IS NULL"), 1)
}

func TestSecretsOfTargetsAreResealed(t *testing.T) {
	r := newResealFixture(t, asItIs)
	want := []eventhook.Target{secretTarget("a.example", targetSecret)}
	r.apply(acmeWithTargets(want...))
	r.reseal(quiet)
	same(t, "keys", r.counts(), map[string]int{r.newID: 3})
	same(t, "opened with the new key alone", r.targets(r.newer), want)
}

// If a key is lost, only the targets with secrets fail. They work again when the key is restored
// or when they are configured again.
func TestSecretsOfTargetsWhoseKeyIsLost(t *testing.T) {
	r := newResealFixture(t, asItIs)
	want := []eventhook.Target{secretTarget("a.example", targetSecret), plainTarget}
	r.apply(acmeWithTargets(want...))
	stranger, err := seal.New(seal.NewKey())
	r.must(err)
	lost := r.open(func(o *Options) { o.Sealer = stranger })
	bare := []eventhook.Target{{Type: "http", Settings: want[0].Settings}, plainTarget}
	same(t, "without the key", r.targets(lost), bare)
	route, err := lost.Route(t.Context(), r.crm, r.routeID())
	r.must(err)
	same(t, "SecretsLost", route.SecretsLost, true)

	changed, err := lost.UpdateRoute(t.Context(), operator, r.tenant, "crm", route.ID, 0, prioritized(7))
	r.must(err)
	same(t, "its priority", []any{changed.Priority, changed.SecretsLost}, []any{7, true})
	r.must(lost.ReorderRoutes(t.Context(), operator, r.tenant, "crm", []eventhook.RoutePriority{{ID: route.ID, Priority: 8}}))
	same(t, "with the key again", r.targets(r.older), want)

	_, err = lost.UpdateRoute(t.Context(), operator, r.tenant, "crm", route.ID, 0, func(x eventhook.Route) (eventhook.Route, error) {
		x.Targets = []eventhook.Target{plainTarget}
		return x, nil
	})
	r.must(err)
	same(t, "other targets", r.count("route", "target_secrets IS NULL"), 1)

	r.apply(acmeWithTargets(want...))
	r.must(lost.ReplaceCanary(t.Context()))
	again := acmeWithTargets(want...)
	changes, err := lost.ApplyTenant(t.Context(), operator, again, ApplyOptions{})
	r.must(err)
	i := slices.IndexFunc(changes, func(c eventhook.Change) bool { return c.Kind == "route" })
	same(t, "applied again", changes[i].Fields, []eventhook.FieldChange{secretsChanged})
	same(t, "mended", r.targets(lost), want)
	if _, err = r.older.TenantConfig(t.Context(), "acme"); err == nil {
		t.Error("exported without the key: got no error")
	}
}

func (f *fixture) routeID() eventhook.RouteID {
	f.Helper()
	routes, err := f.db.AllRoutes(f.Context(), f.crm)
	f.must(err)
	return routes[0].ID
}

func TestSecretsAreNotAttachedToChangedTargets(t *testing.T) {
	f := setUp(t)
	f.apply(acmeWithTargets(secretTarget("a.example", targetSecret), plainTarget))
	// An instance of the former version knows nothing of the secrets.
	f.exec(`UPDATE eventhook.route SET targets = '[{"type":"http","url":"https://b.example","auth_header":"[redacted]"}]'`)
	if got := f.targets(f.db); !got[0].Secrets.IsZero() {
		t.Errorf("got %+v, want no secret given to it", got)
	}
}

func TestExportNamesTheRouteWhoseKeyIsLost(t *testing.T) {
	f := setUp(t)
	f.apply(acmeWithTargets(secretTarget("a.example", targetSecret)))
	f.exec(`UPDATE eventhook.route SET target_secrets = 'enc:0a:x'`)
	if _, err := f.db.TenantConfig(t.Context(), "acme"); err == nil || !strings.Contains(err.Error(), "acme/crm/all") {
		t.Errorf("got %v, want the route named", err)
	}
}
