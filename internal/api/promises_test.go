package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

func TestPromiseIsCreatedOnce(t *testing.T) {
	r := setUp(t)
	r.execution(eventhook.Workflow, "pay")
	w := r.claimOne()
	body := map[string]any{"idempotency_key": "order-1", "workflow_execution_id": w.ID, "timeout_seconds": 60}
	made := r.admin("POST", T("acme")+"/promises", body).want(http.StatusCreated).object()
	want := map[string]any{
		"id": made["id"], "idempotency_key": "order-1", "status": "pending", "value": nil, "error": nil, "workflow_execution_id": w.ID,
		"expires_at": "2026-03-10T15:01:00.001Z", "created_at": "2026-03-10T15:00:00.001Z", "settled_at": nil,
	}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	r.clock.Advance(time.Second)
	for _, again := range []map[string]any{body, {"idempotency_key": "order-1"}} {
		if diff := cmp.Diff(made, r.admin("POST", T("acme")+"/promises", again).want(http.StatusOK).object()); diff != "" {
			t.Errorf("the second request returned another promise (-first +second):\n%s", diff)
		}
	}
	if diff := cmp.Diff(made, r.admin("GET", T("acme")+"/promises/"+made["id"].(string), nil).want(http.StatusOK).object()); diff != "" {
		t.Errorf("read (-made +got):\n%s", diff)
	}
	if p := r.createPromise("order-2", http.StatusCreated); p.ExpiresAt != nil || p.WorkflowExecutionID != nil {
		t.Errorf("without timeout and workflow it has %v and %v", p.ExpiresAt, p.WorkflowExecutionID)
	}
	r.admin("GET", T("acme")+"/promises/"+w.ID, nil).want(http.StatusNotFound)
}

func TestPromiseIsFoundByItsKey(t *testing.T) {
	r := setUp(t)
	p := r.createPromise("order 1&2", http.StatusCreated)
	r.createPromise("order", http.StatusCreated)
	if diff := cmp.Diff([]string{p.ID}, r.list(T("acme")+"/promises?idempotency_key=order+1%262").ids()); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	if got := r.list(T("acme") + "/promises?idempotency_key=nothing"); len(got.Items) != 0 || got.NextCursor != nil {
		t.Errorf("found %v for an unknown key", got)
	}
	// Routes store a key that is too long as its hash. The list finds it by the original key.
	long := strings.Repeat("k", 300)
	r.createPromise(eventhook.NormalizeKey(long), http.StatusCreated)
	if got := r.list(T("acme") + "/promises?idempotency_key=" + long); len(got.Items) != 1 {
		t.Errorf("found %v for a long key, want one promise", got)
	}
}

func TestFirstOutcomeWins(t *testing.T) {
	type act struct {
		name string
		body map[string]any
	}
	resolve, reject := act{"resolve", map[string]any{"value": map[string]any{"a": 1.0}}}, act{"reject", map[string]any{"error": "no"}}
	for _, c := range []struct {
		claim  string
		first  act
		second act
		status string
		value  any
		error  any
	}{
		{"resolved", resolve, reject, "resolved", map[string]any{"a": 1.0}, nil},
		{"resolved twice", resolve, resolve, "resolved", map[string]any{"a": 1.0}, nil},
		{"resolved without a value", act{"resolve", map[string]any{}}, reject, "resolved", nil, nil},
		{"rejected", reject, resolve, "rejected", nil, "no"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := setUp(t)
			p := r.createPromise("k", http.StatusCreated)
			path := T("acme") + "/promises/" + p.ID
			r.clock.Advance(time.Second)
			got := r.admin("POST", path+"/"+c.first.name, c.first.body).want(http.StatusOK).object()
			if got["status"] != c.status || !cmp.Equal(got["value"], c.value) || got["error"] != c.error || got["settled_at"] != "2026-03-10T15:00:01Z" {
				t.Errorf("got %v, want the status %s with %v, %v", got, c.status, c.value, c.error)
			}
			r.admin("POST", path+"/"+c.second.name, c.second.body).want(http.StatusConflict)
			if diff := cmp.Diff(got, r.admin("GET", path, nil).want(http.StatusOK).object()); diff != "" {
				t.Errorf("the second outcome changed it (-before +after):\n%s", diff)
			}
		})
	}
}

func TestPromiseExpires(t *testing.T) {
	r := setUp(t)
	p := r.admin("POST", T("acme")+"/promises", map[string]any{"idempotency_key": "k", "timeout_seconds": 60}).want(http.StatusCreated).object()
	r.clock.Advance(time.Minute)
	_, err := r.db.ExpirePromises(t.Context())
	r.must(err)
	path := T("acme") + "/promises/" + p["id"].(string)
	if got := r.admin("GET", path+"?wait_seconds=60", nil).want(http.StatusOK).object(); got["status"] != "expired" || got["settled_at"] != p["expires_at"] {
		t.Errorf("got %v, want it expired at expires_at", got)
	}
	r.admin("POST", path+"/resolve", map[string]any{"value": 1}).want(http.StatusConflict)
}

func TestEarlyOutcomeIsHeld(t *testing.T) {
	r := setUp(t)
	e := r.event()
	r.settle(e, plannedPromise(effects.PromiseOutcome{Key: "order-1", Status: eventhook.PromiseResolved, Value: []byte(`{"paid":true}`), Hold: true}))
	actions, _, err := r.db.Actions(t.Context(), e, 10)
	r.must(err)
	held := "/promises/" + actions[0].PromiseID.String()
	says := func(tenant, method, path string) string {
		return r.admin(method, T(tenant)+path, map[string]any{}).want(http.StatusNotFound).problem().Detail
	}
	const want = `the promise does not exist yet; an outcome is held for its idempotency key "order-1", and creating the promise settles it`
	if read, settled := says("acme", "GET", held), says("acme", "POST", held+"/resolve"); read != want || settled != want {
		t.Errorf("reading returned %q, settling returned %q; want %q", read, settled, want)
	}
	if got := says("umbrella", "GET", held); got != "no such promise" {
		t.Errorf("another tenant gets %q", got)
	}
	if got := r.list(T("acme") + "/promises"); len(got.Items) != 0 {
		t.Errorf("listed %v, want no promise before it is created", got.Items)
	}
	if got := r.list(T("acme") + "/promises?idempotency_key=order-1"); len(got.Items) != 0 {
		t.Errorf("found %v, want no promise before it is created", got.Items)
	}
	p := r.createPromise("order-1", http.StatusCreated)
	if p.Status != "resolved" || string(p.Value) != `{"paid":true}` || "/promises/"+p.ID != held {
		t.Errorf("created %+v, want it settled with the held outcome", p)
	}
	r.createPromise("order-1", http.StatusOK)
}
