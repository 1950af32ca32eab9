package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
	"github.com/eventhook/eventhook/internal/tracing"
	"github.com/eventhook/eventhook/internal/tracing/collectortest"
)

// tracingTo returns the variables with which a gateway exports to a collector at once.
func tracingTo(endpoint, protocol string, more ...string) []string {
	return append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol, "OTEL_BSP_SCHEDULE_DELAY=20"}, more...)
}

// callee records the traceparents of the requests that it gets, by path, and answers with failures
// first.
type callee struct {
	url string

	mu       sync.Mutex
	failures int
	got      map[string][]string
}

func newCallee(t *testing.T, failures int) *callee {
	c := &callee{failures: failures, got: map[string][]string{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.got[r.URL.Path] = append(c.got[r.URL.Path], r.Header.Get("Traceparent"))
		if len(c.got[r.URL.Path]) <= c.failures {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

func (c *callee) traceparents(path string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.got[path]...)
}

// one returns the only span with a name and a parent; "" matches every parent.
func one(t *testing.T, all collectortest.Spans, name, parent string) collectortest.Span {
	t.Helper()
	var found collectortest.Spans
	for _, s := range all.Named(name) {
		if parent == "" || s.Parent == parent {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("got %d spans %q below %q, want 1; all spans:\n%s", len(found), name, parent, all)
	}
	return found[0]
}

const webhookSpan = "POST /api/tenants/{tenant}/eventhook/in/{source}"

// wantAttempts checks that the requests that a receiver got name the spans of the attempts.
func wantAttempts(t *testing.T, all collectortest.Spans, parent string, got []string) {
	t.Helper()
	attempts := map[string]collectortest.Span{}
	for _, s := range append(all.Named("deliver to subscription"), all.Named("deliver to http target")...) {
		if s.Parent == parent {
			attempts[s.ID] = s
		}
	}
	for i, text := range got {
		_, id, _ := eventhook.ParseTraceparent(text)
		s, ok := attempts[id]
		if shown, _ := s.Attributes["url.full"].(string); !strings.HasSuffix(shown, "/REDACTED") {
			t.Errorf("attempt %d: got the URL %q, want it without its path", i+1, shown)
		}
		if !ok || s.Kind != "client" || s.Attributes["eventhook.attempt"] != int64(i+1) {
			t.Errorf("attempt %d: the receiver got %s, of which the span is %+v; want a client span below %s", i+1, text, s, parent)
		}
		if failed := s.Attributes["http.response.status_code"] == int64(http.StatusBadGateway); failed != s.Failed || failed && s.Attributes["error.type"] != "502" {
			t.Errorf("attempt %d: got %+v, want an error.type for a failure", i+1, s)
		}
	}
	if len(attempts) != len(got) {
		t.Errorf("got %d spans of attempts and %d requests, want as many", len(attempts), len(got))
	}
}

// TestTraceOfAWebhook follows one trace over both protocols: the sender, the webhook, its commit,
// its plan, the task that a worker continues, the published event, and each attempt.
func TestTraceOfAWebhook(t *testing.T) {
	for protocol, endpoint := range map[string]func(*collectortest.Collector) string{
		"grpc":          func(c *collectortest.Collector) string { return c.GRPC },
		"http/protobuf": func(c *collectortest.Collector) string { return c.HTTP },
	} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			collector, receiver := collectortest.New(t), newCallee(t, 1)
			gateway := startCalling(t, pgtest.New(t), "{type: task, task_kind: build}, {type: publish, event_type: pushed}, {type: http, url: '"+
				receiver.url+"/target?token=t0p', retry: {max_retries: 2, initial_delay_ms: 50}}", tracingTo(endpoint(collector), protocol)...)
			gateway.subscribe(receiver.url+"/sub?token=t0p", "pushed", "")
			event, _ := gateway.pushTraced(testSecret, "one", tracedParent)
			var all collectortest.Spans
			clitest.Eventually(t, "all spans are exported", func() bool {
				all = collector.Spans().Of(tracedID)
				return len(receiver.traceparents("/sub")) == 2 && len(receiver.traceparents("/target")) == 2 && len(all) >= 9
			})
			webhook := one(t, all, webhookSpan, "00f067aa0ba902b7")
			plan, store := one(t, all, "plan event", webhook.ID), one(t, all, "store event", webhook.ID)
			task, published := one(t, all, "create task", plan.ID), one(t, all, "publish event", plan.ID)
			wantAttempts(t, all, webhook.ID, receiver.traceparents("/target"))
			wantAttempts(t, all, published.ID, receiver.traceparents("/sub"))
			commit := one(t, collector.Spans(), "commit events", "")
			if len(commit.Links) != 1 || commit.Links[0] != (collectortest.Link{Trace: tracedID, ID: store.ID}) || commit.Trace == tracedID ||
				len(store.Links) != 1 || store.Links[0] != (collectortest.Link{Trace: commit.Trace, ID: commit.ID}) {
				t.Errorf("got the commit %+v and the event's span %+v, want links to each other", commit, store)
			}
			if got := gateway.claimTraceparent(); got != "00-"+tracedID+"-"+task.ID+"-01" {
				t.Errorf("the worker got the traceparent %q, want the span %s", got, task.ID)
			}
			for name, want := range map[string]any{"eventhook.tenant": "acme", "eventhook.source": "github", "eventhook.event_id": event,
				"eventhook.outcome": "accepted", "http.response.status_code": int64(200), "http.request.method": "POST", "url.scheme": "http",
				"url.path": "/api/tenants/acme/eventhook/in/github"} {
				if webhook.Attributes[name] != want {
					t.Errorf("%s is %v, want %v", name, webhook.Attributes[name], want)
				}
			}
			for _, s := range all {
				if s.Attributes["eventhook.tenant"] != "acme" || s.Resource["service.name"] != "eventhook" || s.Ended.Before(s.Began) {
					t.Errorf("%s: got %+v, want the tenant and the service", s.Name, s)
				}
			}
			for _, secret := range []string{testSecret, "t0p", "/sub", "refs/heads"} {
				if strings.Contains(collector.Spans().String(), secret) {
					t.Errorf("the spans contain %q:\n%s", secret, collector.Spans())
				}
			}
		})
	}
}

// claimTraceparent claims one execution and returns the traceparent for its worker.
func (i *instance) claimTraceparent() string {
	i.t.Helper()
	var claimed struct {
		Items []struct{ Traceparent string }
	}
	if status := i.call(http.MethodPost, "/work/claim", map[string]any{"max": 1}, &claimed); status != http.StatusOK || len(claimed.Items) != 1 {
		i.t.Fatalf("the claim was answered %d with %d items, want 200 with one", status, len(claimed.Items))
	}
	return claimed.Items[0].Traceparent
}

// An instance that stored nothing of an event sends its deliveries with the same parents, and the
// stop of an instance exports its last spans.
func TestTraceContinuesOnAnotherInstance(t *testing.T) {
	t.Parallel()
	collector, receiver, dsn := collectortest.New(t), newCallee(t, 0), pgtest.New(t)
	env := tracingTo(collector.HTTP, "http/protobuf", "OTEL_BSP_SCHEDULE_DELAY=60000", "OTEL_SERVICE_NAME=first")
	targets := "{type: publish, event_type: pushed}, {type: http, url: '" + receiver.url + "/target'}"
	first := startCalling(t, dsn, targets, append(env, "EVENTHOOK_ROLES=ingest,route,api")...)
	first.subscribe(receiver.url+"/sub", "pushed", "")
	first.pushTraced(testSecret, "one", tracedParent)
	first.stop()
	startCalling(t, dsn, targets, tracingTo(collector.HTTP, "http/protobuf", "OTEL_SERVICE_NAME=second", "EVENTHOOK_ROLES=dispatch")...)
	var all collectortest.Spans
	clitest.Eventually(t, "the deliveries are exported", func() bool {
		all = collector.Spans().Of(tracedID)
		return len(all.Named("deliver to subscription")) == 1 && len(all.Named("deliver to http target")) == 1
	})
	webhook := one(t, all, webhookSpan, "00f067aa0ba902b7")
	published := one(t, all, "publish event", one(t, all, "plan event", webhook.ID).ID)
	wantAttempts(t, all, webhook.ID, receiver.traceparents("/target"))
	wantAttempts(t, all, published.ID, receiver.traceparents("/sub"))
	if s := one(t, all, "deliver to subscription", ""); s.Resource["service.name"] != "second" || webhook.Resource["service.name"] != "first" {
		t.Errorf("got the services %v and %v, want first and second", webhook.Resource, s.Resource)
	}
}

// The flag of the sender's traceparent goes everywhere, and its trace is not exported, except for
// requests that fail.
func TestUnsampledTraces(t *testing.T) {
	t.Parallel()
	const unsampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
	collector, receiver := collectortest.New(t), newCallee(t, 0)
	gateway := startCalling(t, pgtest.New(t), "{type: task, task_kind: build}, {type: publish, event_type: pushed}, {type: http, url: '"+receiver.url+"/target'}",
		tracingTo(collector.GRPC, "grpc")...)
	gateway.subscribe(receiver.url+"/sub", "pushed", "")
	gateway.subscribe(receiver.url+"/started", "task.started", "")
	gateway.pushTraced(testSecret, "one", unsampled)
	clitest.Eventually(t, "the deliveries arrive", func() bool {
		return len(receiver.traceparents("/sub")) == 1 && len(receiver.traceparents("/target")) == 1
	})
	claimed := gateway.claimTraceparent()
	clitest.Eventually(t, "the event of the started task arrives", func() bool { return len(receiver.traceparents("/started")) == 1 })
	for _, got := range slices.Concat(receiver.traceparents("/sub"), receiver.traceparents("/target"), receiver.traceparents("/started"), []string{claimed}) {
		if !strings.HasPrefix(got, "00-"+tracedID+"-") || !strings.HasSuffix(got, "-00") {
			t.Errorf("got the traceparent %s, want the trace, not sampled", got)
		}
	}
	gateway.pushTraced("another secret", "forged", unsampled)
	clitest.Eventually(t, "the refused request is exported", func() bool { return len(collector.Spans().Of(tracedID)) > 0 })
	gateway.stop() // exports all spans
	all := collector.Spans()
	s := one(t, all, webhookSpan, "00f067aa0ba902b7")
	if len(all) != 1 || s.Attributes["http.response.status_code"] != int64(http.StatusUnauthorized) {
		t.Errorf("got these spans, want one of the refused request:\n%s", all)
	}
}

// TestTraceOfRequestsToTheAPI follows a published event, a batch of CloudEvents and started work.
func TestTraceOfRequestsToTheAPI(t *testing.T) {
	t.Parallel()
	collector, receiver := collectortest.New(t), newCallee(t, 0)
	gateway := startCalling(t, pgtest.New(t), "{type: task, task_kind: build}", tracingTo(collector.HTTP, "http/protobuf")...)
	gateway.subscribe(receiver.url+"/sub", "paid", "")
	gateway.subscribe(receiver.url+"/started", "workflow.started", "")
	gateway.subscribe(receiver.url+"/changed", "webhook.created", "")
	if status := gateway.callTraced("/events", json.RawMessage(`{"event_type":"paid","data":{}}`)); status != http.StatusAccepted {
		t.Fatalf("publishing was answered %d", status)
	}
	if status := gateway.callTraced("/work", json.RawMessage(`{"type":"workflow","kind":"ship","input":1}`)); status != http.StatusCreated {
		t.Fatalf("starting work was answered %d", status)
	}
	var all collectortest.Spans
	clitest.Eventually(t, "all spans are exported", func() bool { all = collector.Spans().Of(tracedID); return len(all) >= 6 })
	request := one(t, all, "POST /api/tenants/{tenant}/eventhook/events", "00f067aa0ba902b7")
	if path := request.Attributes["url.path"]; path != "/api/tenants/acme/eventhook/events" {
		t.Errorf("got the path %v", path)
	}
	published := one(t, all, "publish event", request.ID)
	one(t, all, "store event", published.ID)
	wantAttempts(t, all, published.ID, receiver.traceparents("/sub"))
	started := one(t, all, "create workflow", one(t, all, "POST /api/tenants/{tenant}/eventhook/work", "00f067aa0ba902b7").ID)
	if got := gateway.claimTraceparent(); got != "00-"+tracedID+"-"+started.ID+"-01" {
		t.Errorf("the worker got the traceparent %q, want the span %s", got, started.ID)
	}
	// Events of the gateway continue the trace below the span that led to them.
	other := json.RawMessage(`{"name":"other","url":"` + receiver.url + `/other","event_types":["other"]}`)
	if status := gateway.callTraced("/subscriptions", other); status != http.StatusCreated {
		t.Fatalf("subscribing was answered %d", status)
	}
	clitest.Eventually(t, "the gateway's own events are delivered", func() bool {
		all = collector.Spans().Of(tracedID)
		return len(receiver.traceparents("/started")) == 1 && len(receiver.traceparents("/changed")) == 1 && len(all.Named("deliver to subscription")) == 3
	})
	wantAttempts(t, all, started.ID, receiver.traceparents("/started"))
	wantAttempts(t, all, "00f067aa0ba902b7", receiver.traceparents("/changed"))
	if published.Kind != "producer" || published.Attributes["cloudevents.event_type"] != "paid" {
		t.Errorf("got %+v, want a producer of a CloudEvent", published)
	}
}

// A request that panics exports a span of its own, also one that is not sampled.
func TestARequestThatPanicsIsTraced(t *testing.T) {
	collector := collectortest.New(t)
	for _, variable := range tracingTo(collector.HTTP, "http/protobuf") {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	tracer, err := tracing.Open(t.Context(), "test", slog.New(slog.DiscardHandler), now)
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{tracer: tracer}
	e := echo.New()
	e.Use(middleware.RecoverWithConfig(middleware.RecoverConfig{LogErrorFunc: func(echo.Context, error, []byte) error { return nil }}), g.traceAPI)
	e.POST("/api/tenants/:tenant/eventhook/events", func(echo.Context) error { panic("on purpose") })
	r := httptest.NewRequest(http.MethodPost, "/api/tenants/acme/eventhook/events", nil)
	r.Header.Set("Traceparent", strings.TrimSuffix(tracedParent, "1")+"0")
	e.ServeHTTP(httptest.NewRecorder(), r)
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := one(t, collector.Spans(), "POST /api/tenants/{tenant}/eventhook/events", "00f067aa0ba902b7"); !s.Failed || s.Attributes["error.type"] != "500" {
		t.Errorf("got %+v, want a failed span", s)
	}
}

// callTraced posts to the API with a traceparent.
func (i *instance) callTraced(path string, body json.RawMessage) int {
	i.t.Helper()
	r, err := http.NewRequest(http.MethodPost, i.url+"/api/tenants/acme/eventhook"+path, strings.NewReader(string(body)))
	if err != nil {
		i.t.Fatal(err)
	}
	r.Header = http.Header{"Authorization": {"Bearer " + testAdminKey}, "Content-Type": {"application/json"}, "Traceparent": {tracedParent}}
	resp, err := testClient.Do(r)
	if err != nil {
		i.t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// A collector that is down or never answers changes nothing for requests. The spans beyond the
// queue are dropped and counted, and the log has one line.
func TestRequestsDoNotWaitForTheCollector(t *testing.T) {
	for claim, begin := range map[string]func(*testing.T) string{"a collector that is down": closedPort, "a collector that never answers": silentPort} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			gateway := startInstance(t, pgtest.New(t), tracingTo(begin(t), "http/protobuf", "OTEL_BSP_MAX_QUEUE_SIZE=10", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=2",
				"OTEL_EXPORTER_OTLP_TIMEOUT=500", "EVENTHOOK_STOP_TIMEOUT=1s")...)
			for _, id := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
				gateway.mustPush(id)
			}
			clitest.Eventually(t, "dropped spans are counted", func() bool { return gateway.metric("spans_dropped_total") >= 26 })
			gateway.stop()
			if n := strings.Count(gateway.logs.String(), "spans cannot be exported") + strings.Count(gateway.logs.String(), "spans are dropped\""); n < 1 || n > 3 {
				t.Errorf("the log has %d lines about spans, want 1 to 3:\n%s", n, gateway.logs)
			}
		})
	}
}

// closedPort returns a URL at which nothing listens.
func closedPort(t *testing.T) string { return "http://" + clitest.FreeAddress(t) }

// silentPort returns a URL whose server accepts connections and never answers.
func silentPort(t *testing.T) string {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return "http://" + l.Addr().String()
}

func TestTracingNeedsAValidEndpoint(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317?password=t0p")
	t.Setenv("DATABASE_URL", "postgres://127.0.0.1:1/x")
	t.Setenv("EVENTHOOK_ADMIN_KEY", testAdminKey)
	t.Setenv("EVENTHOOK_ENCRYPTION_KEYS", testEncryptionKey)
	var errs clitest.Buffer
	code := run([]string{"serve"}, io.Discard, &errs)
	if text := errs.String(); code != 2 || !strings.Contains(text, "OTEL_EXPORTER_OTLP_ENDPOINT") || strings.Contains(text, "t0p") {
		t.Errorf("got the exit code %d and %s; want 2 and the variable without its value", code, text)
	}
}
