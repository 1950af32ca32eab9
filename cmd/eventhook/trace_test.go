package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/send"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// tracedReceiver records the trace of each request: of an http target at /target, and of
// deliveries elsewhere.
type tracedReceiver struct {
	url string

	mu     sync.Mutex
	traces map[string][]string // trace ids by the event type of a delivery, or "target"
	spans  map[string]bool
}

func newTracedReceiver(t *testing.T) *tracedReceiver {
	r := &tracedReceiver{traces: map[string][]string{}, spans: map[string]bool{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return
		}
		r.record(t, q, body)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

// record checks that a request names one trace, and has a span of its own.
func (r *tracedReceiver) record(t *testing.T, q *http.Request, body []byte) {
	trace, _, flags := ingest.TraceOf(q.Header)
	kind := "target"
	if q.URL.Path != "/target" {
		kind = q.Header.Get("X-Eventhook-Event-Type")
		var envelope struct {
			TraceID string `json:"trace_id"`
		}
		if err := json.Unmarshal(body, &envelope); err != nil || envelope.TraceID != trace || q.Header.Get("X-Eventhook-Trace-Id") != trace {
			t.Errorf("%s: got the traces %s, %s and %s, want the same", kind, trace, q.Header.Get("X-Eventhook-Trace-Id"), envelope.TraceID)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if trace == "" || flags != "01" || r.spans[q.Header.Get("Traceparent")] {
		t.Errorf("%s: got the traceparent %q, want a valid one with a new span, sampled", kind, q.Header.Get("Traceparent"))
	}
	r.spans[q.Header.Get("Traceparent")] = true
	r.traces[kind] = append(r.traces[kind], trace)
}

func (r *tracedReceiver) got(kind string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.traces[kind]...)
}

// wantAll waits for n requests of a kind, all of one trace.
func (r *tracedReceiver) wantAll(t *testing.T, kind, trace string, n int) {
	t.Helper()
	clitest.Eventually(t, kind+" arrives", func() bool { return len(r.got(kind)) >= n })
	for _, got := range r.got(kind) {
		if got != trace {
			t.Errorf("%s has the trace %s, want %s", kind, got, trace)
		}
	}
	if got := len(r.got(kind)); got != n {
		t.Errorf("%s arrived %d times, want %d", kind, got, n)
	}
}

// pushTraced sends a signed push with traceparent headers, and returns the trace of its event.
func (i *instance) pushTraced(secret, id string, traceparent ...string) (event, trace string) {
	i.t.Helper()
	q, err := send.Sample{Provider: "github", ID: id}.Request(i.t.Context(), i.url+ingest.Path("acme", "github"), secret, time.Now())
	if err != nil {
		i.t.Fatal(err)
	}
	for _, v := range traceparent {
		q.Header.Add("Traceparent", v)
	}
	resp, err := testClient.Do(q)
	if err != nil {
		i.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer send.Answer
	if resp.StatusCode != http.StatusOK {
		return "", ""
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		i.t.Fatal(err)
	}
	var e struct {
		TraceID string `json:"trace_id"`
	}
	i.call(http.MethodGet, "/events/"+answer.EventID, nil, &e)
	return answer.EventID, e.TraceID
}

// claimTraces claims work and returns the trace ids of the executions.
func (i *instance) claimTraces() (traces []string) {
	i.t.Helper()
	var claimed struct {
		Items []struct {
			TraceID string `json:"trace_id"`
		}
	}
	if status := i.call(http.MethodPost, "/work/claim", map[string]any{"max": 10}, &claimed); status != http.StatusOK {
		i.t.Fatalf("the claim was answered %d", status)
	}
	for _, x := range claimed.Items {
		traces = append(traces, x.TraceID)
	}
	return traces
}

const tracedParent, tracedID = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "4bf92f3577b34da6a3ce929d0e0e4736"

// TestOneTraceLeadsThroughEverything follows one trace: the webhook, the published event, the
// request of the http target, deliveries, the execution, the promise and the log; then the event
// again, and a replay of the delivery.
func TestOneTraceLeadsThroughEverything(t *testing.T) {
	t.Parallel()
	for claim, sent := range map[string][]string{"a trace of the sender": {tracedParent}, "a trace of the gateway": nil} {
		t.Run(claim, func(t *testing.T) {
			r := newTracedReceiver(t)
			gateway := startCalling(t, pgtest.New(t), "{type: promise, idempotency_key_path: header.x-github-delivery, resolve: true}, {type: task, task_kind: build}, "+
				"{type: publish, event_type: pushed}, {type: http, url: '"+r.url+"/target'}")
			subscription, _ := gateway.subscribe(r.url, "pushed", "")
			gateway.subscribe(r.url+"/lifecycle", "promise.resolved", "")
			gateway.subscribe(r.url+"/lifecycle", "task.started", "")
			if status := gateway.call(http.MethodPost, "/promises", map[string]any{"idempotency_key": "one"}, nil); status != http.StatusCreated {
				t.Fatalf("the promise was answered %d", status)
			}
			event, trace := gateway.pushTraced(testSecret, "one", sent...)
			if len(sent) > 0 && trace != tracedID || len(trace) != len(tracedID) {
				t.Fatalf("the event has the trace %q, want %s if one was sent", trace, tracedID)
			}
			wantEffects := func(n int) {
				t.Helper()
				r.wantAll(t, "target", trace, n)
				r.wantAll(t, "pushed", trace, n)
				r.wantAll(t, "promise.resolved", trace, 1)
				if got := gateway.claimTraces(); len(got) != 1 || got[0] != trace {
					t.Errorf("claimed work with the traces %v, want %s", got, trace)
				}
				r.wantAll(t, "task.started", trace, n)
			}
			wantEffects(1)
			var again struct {
				Count int `json:"reprocessed_count"`
			}
			ready := func() bool {
				gateway.call(http.MethodPost, "/events/reprocess", map[string]any{"mode": "again", "event_ids": []string{event}}, &again)
				return again.Count == 1
			}
			clitest.Eventually(t, "the event is final, and is routed again", ready)
			wantEffects(2)
			if status := gateway.call(http.MethodPost, "/subscriptions/"+subscription+"/replay", map[string]any{"since": time.Now().Add(-time.Hour), "status": []string{"success"}}, nil); status != http.StatusAccepted {
				t.Fatalf("the replay was answered %d", status)
			}
			r.wantAll(t, "pushed", trace, 4)
			var list struct {
				Items []struct {
					EventType string `json:"event_type"`
				}
			}
			gateway.call(http.MethodGet, "/events?trace_id="+trace, nil, &list)
			if len(list.Items) != 7 { // push, pushed and task.started twice, promise.resolved
				t.Errorf("the list of the trace has %+v, want 7 events", list.Items)
			}
			gateway.pushTraced("another secret", "forged", "00-"+trace+"-00f067aa0ba902b7-01")
			clitest.Eventually(t, "the log has the trace of a refused webhook", func() bool { return strings.Contains(gateway.logs.String(), "trace_id="+trace) })
		})
	}
}

func TestAnInvalidTraceparentGetsANewTrace(t *testing.T) {
	t.Parallel()
	gateway := startInstance(t, pgtest.New(t))
	for claim, sent := range map[string][]string{
		"zeros":               {"00-00000000000000000000000000000000-00f067aa0ba902b7-01"},
		"upper case":          {strings.ToUpper(tracedParent)},
		"a forbidden version": {"ff" + tracedParent[2:]},
		"too long":            {tracedParent + "-00"},
		"two headers":         {tracedParent, tracedParent},
		"other text":          {"<script>"},
	} {
		if event, trace := gateway.pushTraced(testSecret, claim, sent...); trace != strings.ReplaceAll(event, "-", "") {
			t.Errorf("%s: got the trace %q of event %s, want a new one", claim, trace, event)
		}
	}
	if _, trace := gateway.pushTraced(testSecret, "a later version", "01"+tracedParent[2:]+"-more"); trace != tracedID {
		t.Errorf("a later version: got the trace %q, want %s", trace, tracedID)
	}
}
