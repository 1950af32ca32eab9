package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/httpguard/httpguardtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testKey = "ehk_hush_hush"

// gateway is a fake gateway in memory.
type gateway struct {
	mu         sync.Mutex
	deliveries []*fakeDelivery
	changed    chan struct{} // closed when the state changes
	claims     []claim
	reports    int // calls
	fault      func(w http.ResponseWriter, r *http.Request) bool
}

type claim struct {
	at    time.Time
	max   int
	wait  int
	lease int
}

type fakeDelivery struct {
	client.AgentItem
	due    time.Time // zero: never
	leases int
	result *client.AgentDeliveryResult
}

// add adds a delivery to a host that is due now.
func (g *gateway) add(url string) *fakeDelivery {
	defer g.lock()()
	d := &fakeDelivery{due: time.Now()}
	d.ID, d.URL, d.Method, d.TimeoutSeconds, d.Attempt = fmt.Sprint("d", len(g.deliveries)+1), url, "POST", 30, 1
	d.Headers, d.BodyBase64 = map[string]string{"Webhook-Signature": "v1,abc", "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, []byte("body of "+d.ID)
	g.deliveries = append(g.deliveries, d)
	return d
}

// lock locks the gateway and returns a function that unlocks it and wakes waiting claims.
func (g *gateway) lock() func() {
	g.mu.Lock()
	return func() {
		close(g.changed)
		g.changed = make(chan struct{})
		g.mu.Unlock()
	}
}

func (g *gateway) setFault(f func(w http.ResponseWriter, r *http.Request) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fault = f
}

func (g *gateway) result(d *fakeDelivery) *client.AgentDeliveryResult {
	g.mu.Lock()
	defer g.mu.Unlock()
	return d.result
}

// waitForResult waits for the result of a delivery, for at most an hour of fake time.
func (g *gateway) waitForResult(t *testing.T, d *fakeDelivery) *client.AgentDeliveryResult {
	t.Helper()
	for end := time.NewTimer(time.Hour); ; {
		g.mu.Lock()
		changed, r := g.changed, d.result
		g.mu.Unlock()
		if r != nil {
			end.Stop()
			return r
		}
		select {
		case <-changed:
		case <-end.C:
			t.Fatalf("%s has no result after an hour", d.ID)
		}
	}
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	fault := g.fault
	g.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+testKey {
		problem(w, http.StatusUnauthorized)
		return
	}
	const base = "/api/tenants/acme/eventhook/agents"
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+base+"/claim", g.claim)
	mux.HandleFunc("POST "+base+"/deliveries/results", g.report)
	mux.HandleFunc("POST "+base+"/deliveries/{id}/result", g.reportOne)
	mux.ServeHTTP(w, r)
}

func (g *gateway) claim(w http.ResponseWriter, r *http.Request) {
	var body client.AgentClaimRequest
	if !read(w, r, &body) {
		return
	}
	g.mu.Lock()
	g.claims = append(g.claims, claim{time.Now(), int(*body.Max), int(*body.WaitSeconds), int(*body.LeaseSeconds)})
	g.mu.Unlock()
	end := time.NewTimer(time.Duration(*body.WaitSeconds) * time.Second)
	defer end.Stop()
	for isLast := *body.WaitSeconds == 0; ; {
		items, changed, next := g.lease(int(*body.Max), *body.LeaseSeconds)
		if len(items) > 0 || isLast {
			answer(w, map[string]any{"items": items})
			return
		}
		due := time.NewTimer(next)
		select {
		case <-changed:
		case <-due.C:
		case <-end.C:
			isLast = true
		case <-r.Context().Done():
			due.Stop()
			return
		}
		due.Stop()
	}
}

// lease leases due deliveries. next is the time until another one is due.
func (g *gateway) lease(n int, seconds int64) (items []client.AgentItem, changed <-chan struct{}, next time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	next, items = time.Hour, []client.AgentItem{}
	for _, d := range g.deliveries {
		switch {
		case d.due.IsZero():
		case d.due.After(now) || len(items) == n:
			next = min(next, d.due.Sub(now))
		default:
			d.leases++
			d.LeaseToken++
			d.LeaseSeconds, d.due = seconds, now.Add(time.Duration(seconds)*time.Second)
			d.LeaseUntil = d.due.Add(time.Hour) // by a clock that is an hour ahead
			items = append(items, d.AgentItem)
		}
	}
	return items, g.changed, next
}

func (g *gateway) report(w http.ResponseWriter, r *http.Request) {
	var body client.AgentResults
	if !read(w, r, &body) {
		return
	}
	defer g.lock()()
	g.reports++
	var out client.AgentResultsAnswer
	for _, result := range body.Items {
		status := client.AgentResultAnswerStatusAccepted
		if !g.store(result) {
			status = client.AgentResultAnswerStatusLost
		}
		out.Items = append(out.Items, client.AgentResultAnswer{ID: result.ID, Status: status})
	}
	answer(w, out)
}

func (g *gateway) reportOne(w http.ResponseWriter, r *http.Request) {
	var body client.AgentResult
	if !read(w, r, &body) {
		return
	}
	defer g.lock()()
	if !g.store(client.AgentDeliveryResult{ID: r.PathValue("id"), LeaseToken: body.LeaseToken, StatusCode: body.StatusCode, Error: body.Error}) {
		problem(w, http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (g *gateway) store(r client.AgentDeliveryResult) bool {
	for _, d := range g.deliveries {
		if d.ID == r.ID && d.LeaseToken == r.LeaseToken && d.result == nil {
			d.result, d.due = &r, time.Time{}
			return true
		}
	}
	return false
}

// read decodes a request. It is as strict as the gateway and rejects unknown members.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		problem(w, http.StatusUnprocessableEntity)
		return false
	}
	return true
}

func answer(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

func problem(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	answer(w, map[string]any{"title": http.StatusText(status), "status": status})
}

// receiver answers requests to destinations.
type receiver struct {
	mu       sync.Mutex
	handle   func(r *http.Request) (status int, header http.Header, body string, err error)
	requests []*http.Request
	now, max int // requests at once
}

func (d *receiver) Exchange(_ context.Context, r *http.Request, maxBytes int) (status int, header http.Header, beginning []byte, err error) {
	d.mu.Lock()
	d.requests = append(d.requests, r)
	d.now++
	d.max = max(d.max, d.now)
	d.mu.Unlock()
	status, header, body, err := d.handle(r)
	d.mu.Lock()
	d.now--
	d.mu.Unlock()
	return status, header, []byte(body)[:min(len(body), maxBytes)], err
}

// sleep waits for d of fake time, or until the request is cancelled.
func sleep(r *http.Request, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

// answering returns a handler that answers with a status after a time.
func answering(status int, after time.Duration) func(*http.Request) (int, http.Header, string, error) {
	return func(r *http.Request) (int, http.Header, string, error) {
		return status, http.Header{}, "", sleep(r, after)
	}
}

// logBuffer collects log lines. Safe for concurrent use.
type logBuffer struct {
	mu sync.Mutex
	strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Builder.Write(p)
}

func (b *logBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Builder.String()
}

// harness is an agent with a fake gateway and a fake receiver in a synctest bubble.
type harness struct {
	*gateway
	*receiver
	t     *testing.T
	agent *Agent
	log   logBuffer
	stop  context.CancelFunc
	ended chan error
}

func testConfig() Config {
	return Config{Server: "https://hooks.example.com", Tenant: "acme", Concurrency: 10, Lease: 2 * time.Minute, StopTimeout: 20 * time.Second, Version: "1.2.3"}
}

// runTest runs a test with an agent that has not been started.
func runTest(t *testing.T, change func(*Config), test func(*harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &harness{gateway: &gateway{changed: make(chan struct{})}, receiver: &receiver{handle: answering(200, 0)}, t: t, ended: make(chan error, 1)}
		c := testConfig()
		if change != nil {
			change(&c)
		}
		api, err := client.New(c.Server, testKey, client.WithTimeout(0), client.WithHTTPClient(&http.Client{Transport: httpguardtest.Transport{Handler: h.gateway}}))
		if err != nil {
			t.Fatal(err)
		}
		h.agent = newAgent(c, api, h.receiver, slog.New(slog.NewTextHandler(&h.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
		test(h)
		if strings.Contains(h.log.text(), testKey) {
			t.Errorf("the log contains the key:\n%s", h.log.text())
		}
	})
}

// start starts the agent.
func (h *harness) start() {
	ctx, stop := context.WithCancel(h.t.Context())
	h.stop = stop
	go func() { h.ended <- h.agent.Run(ctx) }()
}

// stopAndWait stops the agent, and returns how long Run took to return.
func (h *harness) stopAndWait() time.Duration {
	h.t.Helper()
	began := time.Now()
	h.stop()
	if err := <-h.ended; err != nil {
		h.t.Errorf("Run returned %v, want nil", err)
	}
	return time.Since(began)
}

// metric returns the value of a metric without labels of the agent.
func (h *harness) metric(t *testing.T, name string) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.agent.metrics.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	_, after, found := strings.Cut(w.Body.String(), "\n"+namespace+"_"+name+" ")
	if !found {
		t.Fatalf("there is no metric %s", name)
	}
	value, _, _ := strings.Cut(after, "\n")
	return value
}
