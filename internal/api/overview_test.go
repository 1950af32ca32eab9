package api_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
)

// traffic adds counts of crm in the current span.
func (r *fixture) traffic(span eventhook.TrafficSpan, counted eventhook.Traffic) {
	r.Helper()
	at := r.clock.Now().UTC().Truncate(time.Duration(span))
	for _, of := range []eventhook.TrafficOf{{TenantID: r.acme}, {TenantID: r.acme, SourceID: r.crm}} {
		r.must(r.db.AddTraffic(r.Context(), 1, []eventhook.TrafficCount{{TrafficOf: of, Span: span, At: at, Traffic: counted}}))
	}
}

// latest returns the last point of the series of an overview.
func latest(overview map[string]any) map[string]any {
	series, _ := overview["series"].([]any)
	point, _ := series[len(series)-1].(map[string]any)
	return point
}

func TestOverviewsHaveThePointsOfTheirWindow(t *testing.T) {
	r := setUp(t)
	counted := eventhook.Traffic{Received: 212, Refused: 38, Sent: 3, FailedAttempts: 1}
	counted.Latency.Observe(3 * time.Millisecond)
	r.traffic(eventhook.TrafficMinute, counted)
	r.traffic(eventhook.TrafficMinutes, eventhook.Traffic{Received: 5})
	for _, path := range []string{T("acme") + "/overview", "/api/admin/overview"} {
		got := r.admin("GET", path, nil).want(http.StatusOK).object()
		series, _ := got["series"].([]any)
		same(t, "points", len(series), 60)
		same(t, "window", []any{got["window_seconds"], got["step_seconds"], got["as_of"]}, []any{3600.0, 60.0, "2026-03-10T15:00:00Z"})
		same(t, "the last point", latest(got), map[string]any{"at": "2026-03-10T15:00:00Z", "received": 212.0, "refused": 38.0, "duplicates": 0.0,
			"succeeded": 0.0, "failed": 0.0, "sent": 3.0, "failed_attempts": 1.0, "dead": 0.0, "latency_p50_ms": 3.0, "latency_p99_ms": 3.98})
		totals, _ := got["totals"].(map[string]any)
		same(t, "totals", []any{totals["received"], totals["success_ratio"]}, []any{212.0, 0.75})
		got = r.admin("GET", path+"?window=24h", nil).want(http.StatusOK).object()
		series, _ = got["series"].([]any)
		same(t, "points of a day", []any{len(series), got["window_seconds"], got["step_seconds"]}, []any{144, 86400.0, 600.0})
		same(t, "received", latest(got)["received"], any(5.0))
		r.admin("GET", path+"?window=7d", nil).want(http.StatusUnprocessableEntity)
	}
}

func TestOverviewsNameTheTenantOfWhatNeedsAPerson(t *testing.T) {
	r := setUp(t)
	r.traffic(eventhook.TrafficMinute, eventhook.Traffic{Refused: 2})
	for path, tenant := range map[string]any{T("acme") + "/overview": nil, "/api/admin/overview": "acme"} {
		got := r.admin("GET", path, nil).want(http.StatusOK).object()
		items, _ := got["attention"].([]any)
		if len(items) != 1 {
			t.Fatalf("%s: got %v, want 1 item", path, items)
		}
		item, _ := items[0].(map[string]any)
		same(t, path, []any{item["tenant"], item["type"], item["severity"], item["resource_id"], item["count"]},
			[]any{tenant, "requests_refused", "warning", "crm", 2.0})
	}
	other := r.admin("GET", T("umbrella")+"/overview", nil).want(http.StatusOK).object()
	same(t, "another tenant's", []any{other["attention"], other["sources"], other["subscriptions"]}, []any{[]any{}, []any{}, []any{}})
	all := r.admin("GET", "/api/admin/overview", nil).want(http.StatusOK).object()
	tenants, _ := all["tenants"].([]any)
	first, _ := tenants[0].(map[string]any)
	same(t, "tenants", []any{all["tenants_count"], first["slug"], first["attention_count"]}, []any{2.0, "acme", 1.0})
}

// Only a secret that is not used before a person has confirmed it needs one.
func TestOnlySecretsToConfirmNeedAPerson(t *testing.T) {
	r := setUp(t)
	r.must(r.db.StoreLearnedSecret(t.Context(), r.crm, eventhook.NewSecret("s3cr3t")))
	for provider, want := range map[string]int{"asana": 0, "notion": 1} {
		_, err := r.conn.Exec(t.Context(), `UPDATE eventhook.source SET provider = $1 WHERE slug = 'crm'`, provider)
		r.must(err)
		got := r.admin("GET", T("acme")+"/overview", nil).want(http.StatusOK).object()
		items, _ := got["attention"].([]any)
		same(t, provider, len(items), want)
	}
}

func TestOverviewsNeedTheirKeys(t *testing.T) {
	r := setUp(t)
	reader, _ := r.key("acme", eventhook.ScopeRead)
	worker, _ := r.key("acme", eventhook.ScopeWork)
	for _, path := range []string{"/overview", "/usage", "/work/queues"} {
		r.call(reader, "GET", T("acme")+path, nil).want(http.StatusOK)
		r.call(worker, "GET", T("acme")+path, nil).want(http.StatusForbidden)
		r.call(reader, "GET", T("umbrella")+path, nil).want(http.StatusNotFound)
	}
	for _, path := range []string{"/api/admin/overview", "/api/admin/system"} {
		r.call(reader, "GET", path, nil).want(http.StatusForbidden)
	}
}

func TestQueuesOfWork(t *testing.T) {
	r := setUp(t)
	_, _, err := r.db.StartWork(t.Context(), eventhook.Execution{TenantID: r.acme, Type: eventhook.Task, Kind: "build", Queue: "ci", MaxAttempts: 1,
		Input: []byte(`{}`)})
	r.must(err)
	r.clock.Advance(90 * time.Second)
	got := r.admin("GET", T("acme")+"/work/queues", nil).want(http.StatusOK).object()
	same(t, "queues", got, map[string]any{"as_of": "2026-03-10T15:01:30Z", "items": []any{map[string]any{"queue": "ci", "waiting": 1.0, "due": 1.0,
		"running": 0.0, "oldest_due_age_seconds": 90.0, "oldest_due_at": "2026-03-10T15:00:00Z"}}})
}

func TestUsage(t *testing.T) {
	r := setUp(t)
	r.admin("PATCH", "/api/admin/tenants/acme", map[string]any{"max_events_per_day": 100}).want(http.StatusOK)
	r.must(r.db.AddTenantCounts(t.Context(), 1, []eventhook.TenantCount{{TenantID: r.acme, Day: noon.UTC().Truncate(24 * time.Hour), Events: 7, Bytes: 70}}))
	got := r.admin("GET", T("acme")+"/usage", nil).want(http.StatusOK).object()
	same(t, "usage", got, map[string]any{"as_of": "2026-03-10T15:00:00Z", "events_today": 7.0, "max_events_per_day": 100.0, "events_reset_at": "2026-03-11T00:00:00Z",
		"storage_bytes": 70.0, "max_storage_bytes": nil, "storage_reset_at": "2026-03-11T00:00:00Z"})
}

// fixedSystem is the state of an instance without queues.
type fixedSystem struct{ version string }

func (s fixedSystem) System(context.Context) (api.System, error) {
	none := api.SystemQueue{Parked: map[string]int{}}
	return api.System{Version: s.version, SchemaVersion: 26, Instance: api.SystemInstance{ID: eventhook.NewID[eventhook.Event](noon).String(), Roles: []string{"api"}},
		EncryptionKeyIDs: []string{"1f0e"}, Connections: []api.SystemConnections{}, Queues: api.SystemQueues{Events: none, Executions: none, Deliveries: none}}, nil
}

func TestSystem(t *testing.T) {
	r := setUp(t, func(d *api.Deps) { d.System = fixedSystem{"1.2.3"} })
	got := r.admin("GET", "/api/admin/system", nil).want(http.StatusOK).object()
	same(t, "system", []any{got["version"], got["schema_version"]}, []any{"1.2.3", 26.0})
}
