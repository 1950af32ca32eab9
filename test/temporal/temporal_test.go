// Package temporal_test runs the gateway, built with the client of Temporal, against Temporal's own server
// and a worker of its SDK. The module is apart from the product's, which needs neither of them. Run it
// with make test-temporal.
package temporal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// order is the input of a workflow: the body of a webhook.
type order struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
}

// result is the output of a workflow.
type result struct {
	Order   order
	Payment map[string]any
	EventID string // that started the workflow, from its memo
}

// processPayment is the workflow: it waits for the signal that its order was paid.
func processPayment(ctx workflow.Context, o order) (result, error) {
	r := result{Order: o}
	var origin struct {
		EventID string `json:"event_id"`
	}
	memo := workflow.GetInfo(ctx).Memo.GetFields()["eventhook"]
	if err := json.Unmarshal(memo.GetData(), &origin); err != nil {
		return r, err
	}
	r.EventID = origin.EventID
	workflow.GetSignalChannel(ctx, "paid").Receive(ctx, &r.Payment)
	return r, nil
}

// ended is the workflow that ends at once.
func ended(workflow.Context, order) error { return nil }

// fixture is the gateway, Temporal and a worker.
type fixture struct {
	*gateway
	temporal *temporalServer
	client   client.Client
}

func TestTemporal(t *testing.T) {
	s := startTemporal(t)
	f := &fixture{temporal: s, client: s.connect(namespace)}
	silent := listen(t)
	f.gateway = startGateway(t, []any{
		f.source("orders", f.start(nil)),
		f.source("payments", f.signal(nil)),
		f.source("quick", f.start(map[string]any{"workflow_kind": "ended"})),
		f.source("outage", f.start(map[string]any{"workflow_kind": "ended", "retry": map[string]any{"max_retries": 1, "initial_delay_ms": 10}})),
		f.source("guarded", f.start(map[string]any{"workflow_kind": "ended", "namespace": guarded, "api_key": "k1", "retry": fast})),
		f.source("nowhere", f.start(map[string]any{"namespace": "nowhere", "retry": never})),
		f.source("stranger", f.start(map[string]any{"certificate": nil, "private_key": nil, "retry": never})),
		f.source("silent", f.start(map[string]any{"address": silent, "timeout_seconds": 1, "retry": never})),
	})
	f.work()
	for _, c := range []struct {
		claim string
		test  func(*fixture, *testing.T)
	}{
		{"a webhook starts a workflow, and another one signals it", (*fixture).testStory},
		{"a webhook that is processed again starts another workflow", (*fixture).testAgain},
		{"a signal waits for its workflow", (*fixture).testEarlySignal},
		{"a delivery that is repeated starts nothing", (*fixture).testRepeated},
		{"credentials expire", (*fixture).testCredentials},
		{"faults are told", (*fixture).testFaults},
		{"Temporal is down", (*fixture).testOutage},
	} {
		t.Run(c.claim, func(t *testing.T) {
			part := *f
			part.gateway = &gateway{t, f.url}
			c.test(&part, t)
		})
	}
}

var (
	never = map[string]any{"max_retries": 0}
	fast  = map[string]any{"max_retries": 25, "initial_delay_ms": 10, "backoff_multiplier": 1}
)

func (f *fixture) source(slug string, target map[string]any) any {
	return map[string]any{"slug": slug, "name": slug, "verifier": map[string]any{"type": "none"},
		"routes": []any{map[string]any{"name": slug, "targets": []any{target}}}}
}

// start returns a target that starts a workflow, with more members; nil removes a member.
func (f *fixture) start(more map[string]any) map[string]any {
	return f.target(map[string]any{"type": "workflow", "workflow_kind": "processPayment", "queue": "payments"}, more)
}

func (f *fixture) signal(more map[string]any) map[string]any {
	return f.target(map[string]any{"type": "promise", "signal_name": "paid", "error_path": "body.error", "retry": fast}, more)
}

func (f *fixture) target(members, more map[string]any) map[string]any {
	p := f.temporal.pair
	for name, value := range map[string]any{"engine": "temporal", "address": f.temporal.address, "namespace": namespace, "idempotency_key_path": "body.id",
		"certificate": p.certificate, "private_key": p.key, "ca": p.certificate} {
		members[name] = value
	}
	for name, value := range more {
		if members[name] = value; value == nil {
			delete(members, name)
		}
	}
	return members
}

// work starts a worker until the end of the test.
func (f *fixture) work() {
	w := worker.New(f.client, "payments", worker.Options{})
	w.RegisterWorkflow(processPayment)
	w.RegisterWorkflow(ended)
	must(f.T, w.Start())
	f.Cleanup(w.Stop)
}

// result waits for the result of a workflow.
func (f *fixture) result(t *testing.T, id string) (r result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	must(t, f.client.GetWorkflow(ctx, id, "").Get(ctx, &r))
	return r
}

// started returns the number of workflows whose ids begin with a text.
func (f *fixture) started(t *testing.T, prefix string) (n int) {
	t.Helper()
	var token []byte
	for {
		answer, err := f.client.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{NextPageToken: token})
		must(t, err)
		for _, one := range answer.GetExecutions() {
			if strings.HasPrefix(one.GetExecution().GetWorkflowId(), prefix) {
				n++
			}
		}
		if token = answer.GetNextPageToken(); len(token) == 0 {
			return n
		}
	}
}

func (f *fixture) testStory(t *testing.T) {
	first := f.webhook("orders", `{"id":"order-1","amount":7}`)
	action := f.settled(first, "delivered")
	if a := f.attempts(first)[0]; action["status"] != "success" || !strings.Contains(fmt.Sprint(a["response_excerpt"]), "workflow order-1, run ") {
		t.Errorf("got the action %v with %v, want a success that names the workflow", action, a)
	}
	second := f.webhook("orders", `{"id":"order-1","amount":8}`)
	action = f.settled(second, "delivered")
	if a := f.attempts(second)[0]; action["status"] != "skipped" || a["status_code"] != 208.0 {
		t.Errorf("got the action %v with %v, want that it is skipped with 208", action, a)
	}
	if action = f.settled(f.webhook("payments", `{"id":"order-1","by":"card"}`), "delivered"); action["status"] != "success" {
		t.Errorf("got the action %v of the signal, want a success", action)
	}
	r := f.result(t, "order-1")
	if r.Order != (order{"order-1", 7}) || r.Payment["by"] != "card" || r.EventID != first {
		t.Errorf("got the result %+v, want the first order, its payment and the event %s", r, first)
	}
	action = f.settled(f.webhook("orders", `{"id":"order-1","amount":9}`), "delivered")
	if action["status"] != "skipped" {
		t.Errorf("after the end of the workflow: got the action %v, want that it is skipped", action)
	}
	f.settled(f.webhook("orders", `{"id":"order-2"}`), "delivered")
	f.settled(f.webhook("payments", `{"id":"order-2","error":{"code":"declined"}}`), "delivered")
	if r = f.result(t, "order-2"); fmt.Sprint(r.Payment) != "map[error:map[code:declined]]" {
		t.Errorf("got the result %+v, want the error as the payment", r)
	}
}

func (f *fixture) testAgain(t *testing.T) {
	first := f.webhook("quick", `{"id":"again-1"}`)
	f.settled(first, "delivered")
	copies := f.call(http.MethodPost, "/events/reprocess", map[string]any{"event_ids": []string{first}, "mode": "again"})["event_ids"].([]any)
	f.settled(copies[0].(string), "delivered")
	until(t, "both workflows are listed", func() bool { return f.started(t, "again-1") == 2 })
	f.result(t, "again-1:"+copies[0].(string))
}

func (f *fixture) testEarlySignal(t *testing.T) {
	signal := f.webhook("payments", `{"id":"order-3","by":"cash"}`)
	until(t, "the signal failed", func() bool { return len(f.attempts(signal)) > 0 })
	if a := f.attempts(signal)[0]; a["status_code"] != 404.0 || !strings.Contains(fmt.Sprint(a["error"]), "no open workflow") {
		t.Errorf("got the attempt %v, want that the workflow does not exist", a)
	}
	f.settled(f.webhook("orders", `{"id":"order-3"}`), "delivered")
	f.settled(signal, "delivered")
	if r := f.result(t, "order-3"); r.Payment["by"] != "cash" {
		t.Errorf("got the result %+v, want the payment", r)
	}
}

// The request has the id of the delivery, so that Temporal recognizes it, also after the end of the
// workflow.
func (f *fixture) testRepeated(t *testing.T) {
	event := f.webhook("quick", `{"id":"repeated-1"}`)
	f.settled(event, "delivered")
	must(t, f.client.GetWorkflow(t.Context(), "repeated-1", "").Get(t.Context(), nil))
	f.call(http.MethodPost, "/deliveries/"+f.delivery(event)["id"].(string)+"/retry", map[string]any{})
	until(t, "the delivery is repeated", func() bool { return len(f.attempts(event)) == 2 })
	if action := f.settled(event, "delivered"); action["status"] != "success" || f.attempts(event)[1]["error"] != nil {
		t.Errorf("got the action %v after %v, want a success", action, f.attempts(event))
	}
	until(t, "the workflow is listed", func() bool { return f.started(t, "repeated-1") > 0 })
	if n := f.started(t, "repeated-1"); n != 1 {
		t.Errorf("%d workflows were started, want one", n)
	}
}

func (f *fixture) testCredentials(t *testing.T) {
	f.temporal.key.Store("k1")
	f.settled(f.webhook("guarded", `{"id":"guarded-1"}`), "delivered")
	f.temporal.key.Store("k2")
	event := f.webhook("guarded", `{"id":"guarded-2"}`)
	until(t, "the start failed", func() bool { return len(f.attempts(event)) > 0 })
	if a := f.attempts(event)[0]; !strings.Contains(fmt.Sprint(a["error"]), "credentials") {
		t.Errorf("got the attempt %v, want that the credentials are wrong", a)
	}
	route := f.call(http.MethodGet, "/sources/guarded/routes", nil)["items"].([]any)[0].(map[string]any)
	target := route["targets"].([]any)[0].(map[string]any)
	if target["api_key"] != "[redacted]" || target["private_key"] != "[redacted]" {
		t.Errorf("got the target %v, want that its secrets are hidden", target)
	}
	target["api_key"] = "k2"
	f.call(http.MethodPatch, "/sources/guarded/routes/"+route["id"].(string), map[string]any{"targets": []any{target}})
	f.settled(event, "delivered")
}

func (f *fixture) testFaults(t *testing.T) {
	for source, want := range map[string]string{
		"nowhere": "the namespace does not exist", "stranger": "does not accept the client certificate", "silent": "in time",
	} {
		event := f.webhook(source, `{"id":"`+source+`-1"}`)
		action := f.settled(event, "dead")
		if action["status"] != "failed" || !strings.Contains(fmt.Sprint(action["error_message"]), want) {
			t.Errorf("%s: got the action %v, want %q", source, action, want)
		}
	}
	_, err := f.client.DescribeWorkflowExecution(t.Context(), "stranger-1", "")
	if _, isNone := err.(*serviceerror.NotFound); !isNone {
		t.Errorf("got %v, want that the workflow was not started", err)
	}
}

// While Temporal is down, some deliveries use up their retries, and the circuit breaker holds the
// others. Once it is back, each workflow starts once.
func (f *fixture) testOutage(t *testing.T) {
	f.settled(f.webhook("outage", `{"id":"outage-before"}`), "delivered")
	f.temporal.stop()
	const count = 40
	events := make([]string, count)
	for i := range events {
		events[i] = f.webhook("outage", fmt.Sprintf(`{"id":"outage-%d"}`, i))
	}
	of := func(status string) int {
		return len(f.call(http.MethodGet, "/events?source=outage&limit=200&status="+status, nil)["items"].([]any))
	}
	until(t, "a delivery is dead", func() bool { return of("dead") > 0 })
	f.temporal.start()
	f.client = f.temporal.connect(namespace)
	route := f.call(http.MethodGet, "/sources/outage/routes", nil)["items"].([]any)[0].(map[string]any)["id"]
	until(t, "each webhook is delivered", func() bool {
		if of("dead") > 0 {
			f.call(http.MethodPost, "/deliveries/retry", map[string]any{"filter": map[string]any{"route_id": route, "status": []string{"dead"}}, "limit": 200})
		}
		return of("delivered") == count+1
	})
	for i, event := range events {
		if action := f.settled(event, "delivered"); action["status"] != "success" {
			t.Errorf("got the action %v, want a success", action)
		}
		must(t, f.described(t, fmt.Sprintf("outage-%d", i)))
	}
	until(t, "the workflows are listed", func() bool { return f.started(t, "outage-") >= count+1 })
	if n := f.started(t, "outage-"); n != count+1 {
		t.Errorf("%d workflows were started, want %d", n, count+1)
	}
}

func (f *fixture) described(t *testing.T, id string) error {
	_, err := f.client.DescribeWorkflowExecution(t.Context(), id, "")
	return err
}

// listen returns the address of a server that accepts connections and never answers.
func listen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		accepting.Wait()
	})
	return l.Addr().String()
}
