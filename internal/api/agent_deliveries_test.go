package api_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
)

// agentDeliveries is a fake api.AgentDeliveries that records its calls.
type agentDeliveries struct {
	mu      sync.Mutex
	due     []eventhook.AgentRequest
	claims  []eventhook.AgentClaim
	agents  []eventhook.Agent
	results []eventhook.AgentResult
	errs    []error // of the results
	wake    chan struct{}
	empty   chan struct{} // one value for each claim that found nothing
	nextAt  time.Time
}

func newAgentDeliveries() *agentDeliveries {
	return &agentDeliveries{wake: make(chan struct{}), empty: make(chan struct{}, 100)}
}

func (a *agentDeliveries) use(d *api.Deps) { d.AgentDeliveries = a }

func (a *agentDeliveries) Claim(_ context.Context, agent eventhook.Agent, c eventhook.AgentClaim) ([]eventhook.AgentRequest, time.Time, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.claims, a.agents = append(a.claims, c), append(a.agents, agent)
	list := a.due
	a.due = nil
	if len(list) == 0 {
		a.empty <- struct{}{}
	}
	return list, a.nextAt, nil
}

func (a *agentDeliveries) Wake(eventhook.Agent) <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wake
}

func (a *agentDeliveries) Leave(eventhook.Agent) {}

func (a *agentDeliveries) Report(_ eventhook.Agent, results []eventhook.AgentResult) []error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.results = append(a.results, results...)
	return append(a.errs, make([]error, len(results))...)[:len(results)]
}

// store makes deliveries due and wakes the claims.
func (a *agentDeliveries) store(list ...eventhook.AgentRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due = list
	close(a.wake)
	a.wake = make(chan struct{})
}

func aRequest(body string) eventhook.AgentRequest {
	return eventhook.AgentRequest{ID: eventhook.DeliveryID{1}, Lease: eventhook.Lease{Token: 3, Until: noon.Add(time.Minute)}, Method: "PUT", URL: "https://inside.example/hook",
		Headers: map[string]string{"Webhook-Id": "1"}, Body: []byte(body), Timeout: 20 * time.Second, Attempt: 2}
}

func TestAnAgentClaimsRequestsReadyToBeSent(t *testing.T) {
	a := newAgentDeliveries()
	r := setUp(t, a.use)
	made := r.createAgent("berlin", "env:prod", "region:eu")
	key := made["key"].(string)
	a.store(aRequest("b\x00dy"))
	got := r.call(key, "POST", T("acme")+"/agents/claim", `{"max":7,"lease_seconds":60,"version":"1.2"}`).want(http.StatusOK).object()
	same(t, "items", got["items"], []any{map[string]any{"id": eventhook.DeliveryID{1}.String(), "lease_token": 3.0, "lease_until": "2026-03-10T15:01:00Z", "lease_seconds": 60.0,
		"method": "PUT", "url": "https://inside.example/hook", "headers": map[string]any{"Webhook-Id": "1"}, "body_base64": "YgBkeQ==", "timeout_seconds": 20.0, "attempt": 2.0}})
	same(t, "the claim", a.claims, []eventhook.AgentClaim{{Max: 7, Lease: time.Minute}})
	if got := a.agents[0]; got.ID.String() != made["id"] || got.TenantID != r.acme || cmp.Diff(got.Labels, []string{"env:prod", "region:eu"}) != "" {
		t.Errorf("claimed for %+v, want the agent of the key with its labels", got)
	}
	seen := r.admin("GET", r.agentPath(made), nil).want(http.StatusOK).object()
	same(t, "the heartbeat", []any{seen["status"], seen["version"]}, []any{"online", "1.2"})
	a.store(aRequest(""))
	got = r.call(key, "POST", T("acme")+"/agents/claim", `{}`).want(http.StatusOK).object()
	same(t, "an empty body", got["items"].([]any)[0].(map[string]any)["body_base64"], any(""))
	same(t, "the default claim", a.claims[1], eventhook.AgentClaim{Max: 10, Lease: 30 * time.Second})
}

func TestOnlyAgentsClaimAndReport(t *testing.T) {
	r := setUp(t, newAgentDeliveries().use)
	deliver, _ := r.key("acme", eventhook.ScopeDeliver)
	foreign, _ := r.key("umbrella", eventhook.ScopeDeliver)
	work, _ := r.key("acme", eventhook.ScopeWork)
	key := r.createAgent("berlin", "env:prod")["key"].(string)
	id := eventhook.DeliveryID{1}.String()
	for path, body := range map[string]string{"/agents/claim": `{}`, "/agents/deliveries/" + id + "/result": `{"lease_token":1,"status_code":200,"duration_ms":1}`,
		"/agents/deliveries/results": `{"items":[{"id":"` + id + `","lease_token":1,"status_code":200,"duration_ms":1}]}`} {
		r.call(work, "POST", T("acme")+path, body).want(http.StatusForbidden)
		r.call(foreign, "POST", T("acme")+path, body).want(http.StatusNotFound)
		r.call("", "POST", T("acme")+path, body).want(http.StatusUnauthorized)
		for _, k := range []string{deliver, adminKey} {
			if got := r.call(k, "POST", T("acme")+path, body).want(http.StatusForbidden).Body.String(); !strings.Contains(got, "create an agent") {
				t.Errorf("%s: got %s, want it to say what to do", path, got)
			}
		}
		if code := r.call(key, "POST", T("acme")+path, body).Code; code >= 300 {
			t.Errorf("%s with the key of an agent: got %d", path, code)
		}
	}
}

func TestAWaitingClaimWakesForADelivery(t *testing.T) {
	a := newAgentDeliveries()
	r := setUp(t, a.use)
	key := r.createAgent("berlin", "env:prod")["key"].(string)
	claimed := r.sendAsync(key, "POST", T("acme")+"/agents/claim", waitingClaim)
	receive(t, "the claim waits", a.empty)
	a.store(aRequest("x"))
	wantItems(t, receive(t, "the claim wakes", claimed), 1)
}

func TestAWaitingClaimEndsWithTheServer(t *testing.T) {
	a := newAgentDeliveries()
	r := setUp(t, a.use)
	key := r.createAgent("berlin", "env:prod")["key"].(string)
	claimed := r.sendAsync(key, "POST", T("acme")+"/agents/claim", waitingClaim)
	receive(t, "the claim waits", a.empty)
	close(r.stopping)
	wantItems(t, receive(t, "the claim ends", claimed), 0)
}

// A key that ends while its claim waits gets nothing, and neither does an agent with the labels
// that were taken from it.
func TestAWaitingClaimHasTheCurrentKeyAndLabels(t *testing.T) {
	a := newAgentDeliveries()
	r := setUp(t, a.use)
	made := r.createAgent("berlin", "env:prod")
	claimed := r.sendAsync(made["key"].(string), "POST", T("acme")+"/agents/claim", waitingClaim)
	receive(t, "the claim waits", a.empty)
	r.admin("PATCH", r.agentPath(made), `{"labels":["env:test"]}`).want(http.StatusOK)
	a.store()
	receive(t, "the claim waits again", a.empty)
	same(t, "labels", a.agents[len(a.agents)-1].Labels, []string{"env:test"})
	r.admin("DELETE", r.agentPath(made), nil).want(http.StatusNoContent)
	a.store(aRequest("x"))
	receive(t, "the claim ends", claimed).want(http.StatusUnauthorized)
}

func TestAnAgentReportsResults(t *testing.T) {
	a := newAgentDeliveries()
	r := setUp(t, a.use)
	key := r.createAgent("berlin", "env:prod")["key"].(string)
	id, other := eventhook.DeliveryID{1}, eventhook.DeliveryID{2}
	path := T("acme") + "/agents/deliveries/" + id.String() + "/result"
	r.call(key, "POST", path, `{"lease_token":3,"status_code":503,"duration_ms":42,"response_excerpt":"no","retry_after_seconds":9}`).want(http.StatusNoContent)
	r.call(key, "POST", path, `{"lease_token":3,"error":"refused","error_class":"connect","duration_ms":1}`).want(http.StatusNoContent)
	r.call(key, "POST", path, `{"lease_token":3,"error":"gone","duration_ms":1}`).want(http.StatusNoContent)
	same(t, "results", a.results, []eventhook.AgentResult{
		{ID: id, LeaseToken: 3, StatusCode: 503, Duration: 42 * time.Millisecond, Excerpt: "no", RetryAfter: 9 * time.Second},
		{ID: id, LeaseToken: 3, ErrorClass: eventhook.ErrorConnect, Error: "refused", Duration: time.Millisecond},
		{ID: id, LeaseToken: 3, ErrorClass: eventhook.ErrorClosed, Error: "gone", Duration: time.Millisecond},
	})
	a.errs = []error{eventhook.ErrLeaseLost}
	r.call(key, "POST", path, `{"lease_token":3,"status_code":200,"duration_ms":1}`).want(http.StatusConflict)
	a.errs = []error{nil, eventhook.ErrLeaseLost, eventhook.NotFound("delivery"), &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "later"}}
	one := `{"id":"` + other.String() + `","lease_token":1,"status_code":200,"duration_ms":1}`
	got := r.call(key, "POST", T("acme")+"/agents/deliveries/results", `{"items":[`+one+`,`+one+`,`+one+`,`+one+`]}`).want(http.StatusOK).object()
	var statuses []string
	for _, x := range got["items"].([]any) {
		statuses = append(statuses, x.(map[string]any)["status"].(string))
	}
	same(t, "statuses", statuses, []string{"accepted", "lost", "lost", "unavailable"})
}

func TestFaultsOfClaimsAndResults(t *testing.T) {
	r := setUp(t, newAgentDeliveries().use)
	key := r.createAgent("berlin", "env:prod")["key"].(string)
	claim, many := T("acme")+"/agents/claim", T("acme")+"/agents/deliveries/results"
	one := T("acme") + "/agents/deliveries/" + eventhook.DeliveryID{1}.String() + "/result"
	item := `{"id":"` + eventhook.DeliveryID{1}.String() + `","lease_token":1,"status_code":200,"duration_ms":1}`
	for _, c := range []struct {
		claim, path, body string
		status            int
	}{
		{"too many", claim, `{"max":101}`, 422},
		{"a long lease", claim, `{"lease_seconds":301}`, 422},
		{"a short lease", claim, `{"lease_seconds":0}`, 422},
		{"a long wait", claim, `{"wait_seconds":61}`, 422},
		{"labels of its own", claim, `{"labels":["env:prod"]}`, 422},
		{"neither status nor error", one, `{"lease_token":1,"duration_ms":1}`, 422},
		{"status and error", one, `{"lease_token":1,"duration_ms":1,"status_code":200,"error":"x"}`, 422},
		{"no token", one, `{"duration_ms":1,"status_code":200}`, 422},
		{"no status of HTTP", one, `{"lease_token":1,"duration_ms":1,"status_code":99}`, 422},
		{"a negative duration", one, `{"lease_token":1,"duration_ms":-1,"status_code":200}`, 422},
		{"a duration of a day", one, `{"lease_token":1,"duration_ms":86400000,"status_code":200}`, 422},
		{"an unknown class", one, `{"lease_token":1,"duration_ms":1,"error":"x","error_class":"transform"}`, 422},
		{"10 MB", one, `{"lease_token":1,"duration_ms":1,"status_code":200,"response_excerpt":"` + strings.Repeat("x", 10<<20) + `"}`, 413},
		{"a long excerpt", one, `{"lease_token":1,"duration_ms":1,"status_code":200,"response_excerpt":"` + strings.Repeat("x", 100<<10) + `"}`, 204},
		{"no id of a delivery", T("acme") + "/agents/deliveries/x/result", `{"lease_token":1,"status_code":200,"duration_ms":1}`, 400},
		{"no results", many, `{"items":[]}`, 422},
		{"too many results", many, `{"items":[` + strings.Repeat(item+`,`, 100) + item + `]}`, 422},
		{"no id", many, `{"items":[{"lease_token":1,"status_code":200,"duration_ms":1}]}`, 422},
		{"10 MB of results", many, `{"items":[` + item + `],"x":"` + strings.Repeat("x", 10<<20) + `"}`, 413},
	} {
		if got := r.call(key, "POST", c.path, c.body); got.Code != c.status {
			t.Errorf("%s: got %d %.300s, want %d", c.claim, got.Code, got.Body, c.status)
		}
	}
}
