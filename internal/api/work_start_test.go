package api_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/usage"
)

func (r *fixture) startWork(body map[string]any) *answer {
	r.Helper()
	return r.admin("POST", T("acme")+"/work", body)
}

func TestStartedWorkIsClaimed(t *testing.T) {
	r := setUp(t)
	x := r.startWork(map[string]any{"type": "workflow", "kind": "collect", "input": map[string]any{"id": 7}}).want(http.StatusCreated).object()
	for member, want := range map[string]any{"status": "pending", "queue": "default", "max_attempts": 4.0, "priority": 0.0, "attempt": 0.0, "event_id": nil, "idempotency_key": nil,
		"due_at": "2026-03-10T15:00:00Z", "trace_id": strings.ReplaceAll(x["id"].(string), "-", "")} {
		if x[member] != want {
			t.Errorf("%s: got %v, want %v", member, x[member], want)
		}
	}
	items := r.claim(map[string]any{})
	if len(items) != 1 || items[0].ID != x["id"] || string(items[0].Input) != `{"id":7}` {
		t.Errorf("claimed %+v, want the started workflow", items)
	}
}

func TestStartedWorkHasTheTraceOfItsRequest(t *testing.T) {
	r := setUp(t)
	const trace = "0af7651916cd43dd8448eb211c80319c"
	x := r.withHeader(adminKey, "POST", T("acme")+"/work", `{"type":"task","kind":"k","input":null}`, "traceparent", "00-"+trace+"-b7ad6b7169203331-01").want(http.StatusCreated).object()
	if x["trace_id"] != trace {
		t.Errorf("trace_id: got %v, want %s", x["trace_id"], trace)
	}
}

func TestStartedWorkWaitsForRunAt(t *testing.T) {
	r := setUp(t)
	start := func(runAt time.Time) map[string]any {
		return map[string]any{"type": "task", "kind": "k", "input": 1, "run_at": runAt.Format(time.RFC3339), "priority": 100}
	}
	r.startWork(start(noon.Add(time.Hour))).want(http.StatusCreated)
	if got := len(r.claim(map[string]any{})); got != 0 {
		t.Errorf("before run_at: claimed %d, want 0", got)
	}
	r.clock.Advance(time.Hour)
	if got := len(r.claim(map[string]any{})); got != 1 {
		t.Errorf("at run_at: claimed %d, want 1", got)
	}
	r.startWork(start(r.clock.Now().Add(-time.Hour))).want(http.StatusCreated)
	if got := len(r.claim(map[string]any{})); got != 1 {
		t.Errorf("run_at in the past: claimed %d, want 1", got)
	}
	r.wantFaults(r.startWork(start(r.clock.Now().Add(366*24*time.Hour))), http.StatusUnprocessableEntity, []string{"body.run_at"})
}

func TestFaultsOfStartedWork(t *testing.T) {
	r := setUp(t)
	long := strings.Repeat("x", 256)
	for _, c := range []struct {
		claim string
		body  map[string]any
		want  []string
	}{
		{"nothing", map[string]any{}, []string{"body.type", "body.kind", "body.input"}},
		{"another type", map[string]any{"type": "job", "kind": "k", "input": 1}, []string{"body.type"}},
		{"values out of range", map[string]any{"type": "task", "kind": "k", "input": 1, "priority": 101, "max_attempts": 101, "queue": "", "idempotency_key": long},
			[]string{"body.priority", "body.max_attempts", "body.queue", "body.idempotency_key"}},
		{"texts with NUL", map[string]any{"type": "task", "kind": "\x00", "queue": "a\x00", "idempotency_key": "\x00", "input": 1},
			[]string{"body.kind", "body.queue", "body.idempotency_key"}},
		{"an unknown member", map[string]any{"type": "task", "kind": "k", "input": 1, "run_in": 5}, []string{"body.run_in"}},
		{"a time that is none", map[string]any{"type": "task", "kind": "k", "input": 1, "run_at": "tomorrow"}, []string{"body.run_at"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			r.wantFaults(r.startWork(c.body), http.StatusUnprocessableEntity, c.want)
		})
	}
	r.startWork(map[string]any{"type": "task", "kind": "k", "input": strings.Repeat("x", 1<<20)}).want(http.StatusRequestEntityTooLarge)
}

func TestAnIdempotencyKeyStartsOneExecution(t *testing.T) {
	r := setUp(t)
	const callers = 16
	var wg sync.WaitGroup
	answers := make([]*answer, callers)
	for i := range callers {
		wg.Go(func() {
			answers[i] = r.startWork(map[string]any{"type": "task", "kind": "k", "input": i, "idempotency_key": "once"})
		})
	}
	wg.Wait()
	codes, ids := map[int]int{}, map[any]bool{}
	for _, a := range answers {
		codes[a.Code]++
		ids[a.object()["id"]] = true
	}
	if codes[http.StatusCreated] != 1 || codes[http.StatusOK] != callers-1 || len(ids) != 1 {
		t.Errorf("got the statuses %v and %d ids, want one 201 and one id", codes, len(ids))
	}
	if got := len(r.claim(map[string]any{})); got != 1 {
		t.Errorf("claimed %d, want 1", got)
	}
	r.startWork(map[string]any{"type": "task", "kind": "other", "input": 1, "idempotency_key": "once"}).want(http.StatusCreated)
	r.startWork(map[string]any{"type": "workflow", "kind": "k", "input": 1, "idempotency_key": "once"}).want(http.StatusCreated)
	r.clock.Advance(eventhook.TargetKeyTTL)
	r.startWork(map[string]any{"type": "task", "kind": "k", "input": 1, "idempotency_key": "once"}).want(http.StatusCreated)
}

func TestATenantThatIsNotActiveStartsNoWork(t *testing.T) {
	r := setUp(t)
	key, _ := r.key("acme", eventhook.ScopeWork)
	publisher, _ := r.key("acme", eventhook.ScopePublish)
	body := map[string]any{"type": "task", "kind": "k", "input": 1}
	r.call(publisher, "POST", T("acme")+"/work", body).want(http.StatusForbidden)
	r.call(key, "POST", T("acme")+"/work", body).want(http.StatusCreated)
	r.admin("PATCH", "/api/admin/tenants/acme", map[string]any{"status": "suspended"}).want(http.StatusOK)
	r.clock.Advance(time.Second)
	r.call(key, "POST", T("acme")+"/work", body).want(http.StatusForbidden)
	r.startWork(body).want(http.StatusConflict)
	r.call(key, "POST", T("acme")+"/work/claim", map[string]any{}).want(http.StatusOK)
	r.admin("POST", "/api/admin/tenants/acme/close", nil)
	r.clock.Advance(time.Second)
	r.startWork(body).want(http.StatusConflict)
}

func TestStartedWorkCountsTowardsTheQuota(t *testing.T) {
	var meter *usage.Meter
	r := setUp(t, func(d *api.Deps) {
		meter = usage.New(10, d.Events.(usage.Store), d.Log, d.Now)
		d.Quotas = meter
	})
	r.admin("PATCH", "/api/admin/tenants/acme", object{"max_events_per_day": 2}).want(http.StatusOK)
	r.startWork(object{"type": "task", "kind": "k", "input": "one", "idempotency_key": "one"}).want(http.StatusCreated)
	r.startWork(object{"type": "task", "kind": "k", "input": "longer", "idempotency_key": "one"}).want(http.StatusOK) // does not count
	r.startWork(object{"type": "task", "kind": "k", "input": 1}).want(http.StatusCreated)
	a := r.startWork(object{"type": "task", "kind": "k", "input": 1}).want(http.StatusTooManyRequests)
	if !strings.Contains(a.problem().Detail, "max_events_per_day") || a.Header().Get("Retry-After") != "32400" {
		t.Errorf("over the quota: %s, Retry-After %s; want the name of the quota, and the seconds until midnight", a.Body, a.Header().Get("Retry-After"))
	}
	r.must(meter.Flush(t.Context()))
	used := r.admin("GET", "/api/admin/tenants/acme", nil).object()["usage"].(object)
	if used["events_today"] != 2.0 || used["storage_bytes"] != 6.0 {
		t.Errorf("used %v, want 2 events with 6 bytes", used)
	}
}
