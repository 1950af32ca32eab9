//go:build temporal

package temporal_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// inJSON returns a value as the SDKs' default data converter encodes it.
func inJSON(v any) *common.Payload {
	return &common.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: must(json.Marshal(v))}
}

// headerOf returns the header of the request of a delivery.
func headerOf(d *eventhook.Delivery) *common.Header {
	trace := eventhook.Traceparent(d.Event.Trace(), d.Event.Span(), d.Event.TraceFlags())
	return &common.Header{Fields: map[string]*common.Payload{"eventhook": originOf(d), "_tracer-data": inJSON(map[string]string{"traceparent": trace})}}
}

func originOf(d *eventhook.Delivery) *common.Payload {
	p := inJSON(nil)
	p.Data = []byte(`{"event_id":"` + d.EventID.String() + `","event_type":"order.created","source":"shop","tenant_id":"` + d.TenantID.String() +
		`","delivery_id":"` + d.ID.String() + `","request_id":"req-1","traceparent":"` +
		eventhook.Traceparent(d.Event.Trace(), d.Event.Span(), d.Event.TraceFlags()) + `"}`)
	return p
}

func inputOf(body string) *common.Payloads {
	return &common.Payloads{Payloads: []*common.Payload{inJSON(json.RawMessage(body))}}
}

func TestAWorkflowStarts(t *testing.T) {
	f, s := setUp(t), newServer(t, trusted())
	d := f.delivery(order)
	a := f.sent(f.target(s, map[string]any{"execution_timeout_seconds": 3600, "run_timeout_seconds": 60}), d, 0)
	if a.Excerpt != "workflow order-7, run run-1" {
		t.Errorf("got %q, want the id of the workflow and its run", a.Excerpt)
	}
	want := &workflowservice.StartWorkflowExecutionRequest{
		Namespace: "acme", WorkflowId: "order-7", WorkflowType: &common.WorkflowType{Name: "pay"}, TaskQueue: &taskqueue.TaskQueue{Name: "payments"},
		Input: inputOf(order), RequestId: d.ID.String(), Identity: "eventhook/test", Header: headerOf(d),
		Memo:                     &common.Memo{Fields: map[string]*common.Payload{"eventhook": originOf(d)}},
		WorkflowExecutionTimeout: durationpb.New(time.Hour), WorkflowRunTimeout: durationpb.New(time.Minute),
		WorkflowIdReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, WorkflowIdConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
	}
	if diff := cmp.Diff([]*workflowservice.StartWorkflowExecutionRequest{want}, s.starts, protocmp.Transform()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"acme"}, s.headers["temporal-namespace"]); diff != "" || !strings.HasPrefix(s.headers["user-agent"][0], "eventhook/test ") {
		t.Errorf("headers %v (-want +got):\n%s", s.headers, diff)
	}
}

// An attempt is repeated if its acknowledgement was lost: the earlier one started the workflow. The
// start of another delivery did not.
func TestAWorkflowThatExists(t *testing.T) {
	f, s := setUp(t), newServer(t, trusted())
	to, d := f.target(s, nil), f.delivery(order)
	f.sent(to, d, 0)
	f.sent(to, d, 0)
	a := f.sent(to, f.delivery(order), eventhook.StatusExisted)
	if a.Excerpt != "workflow order-7 existed already, run run-1" {
		t.Errorf("got %q, want that the workflow existed", a.Excerpt)
	}
}

func TestASignal(t *testing.T) {
	f, s := setUp(t), newServer(t, trusted())
	to, d := f.signal(s, nil), f.delivery(order)
	a := f.fails(to, d, "no open workflow", eventhook.ErrorRefused)
	if a.StatusCode != eventhook.StatusNoWorkflow || a.Excerpt != "signal paid to the workflow order-7" {
		t.Errorf("got %d with %q, want 404 and the id of the workflow", a.StatusCode, a.Excerpt)
	}
	f.sent(f.target(s, nil), f.delivery(order), 0)
	f.sent(to, d, 0)
	want := &workflowservice.SignalWorkflowExecutionRequest{Namespace: "acme", WorkflowExecution: &common.WorkflowExecution{WorkflowId: "order-7"},
		SignalName: "paid", Input: inputOf(`{"paid":true}`), RequestId: d.ID.String(), Identity: "eventhook/test", Header: headerOf(d)}
	if diff := cmp.Diff([]*workflowservice.SignalWorkflowExecutionRequest{want, want}, s.signals, protocmp.Transform()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestRefusals(t *testing.T) {
	f, s := setUp(t), newServer(t, trusted())
	for _, to := range []*outbound.Target{f.target(s, map[string]any{"namespace": "other"}), f.signal(s, map[string]any{"namespace": "other"})} {
		if a := f.fails(to, f.delivery(order), "the namespace does not exist", eventhook.ErrorRefused); a.StatusCode != 0 {
			t.Errorf("got the status %d, want none", a.StatusCode)
		}
	}
	for _, c := range []struct {
		claim   string
		failure error
		class   eventhook.ErrorClass
		part    string
	}{
		{"invalid", status.Error(codes.InvalidArgument, "WorkflowId length exceeds limit."), eventhook.ErrorRefused, "InvalidArgument: WorkflowId length exceeds limit."},
		{"a namespace in a wrong state", status.Error(codes.FailedPrecondition, "Namespace has invalid state"), eventhook.ErrorRefused, "invalid state"},
		{"something else is missing", status.Error(codes.NotFound, "no such thing"), eventhook.ErrorRefused, "NotFound: no such thing"},
		{"no token", status.Error(codes.Unauthenticated, secret), eventhook.ErrorAuth, "expired"},
		{"a limit", status.Error(codes.ResourceExhausted, "namespace rate limit exceeded"), eventhook.ErrorHTTP5xx, "limits the rate: namespace rate limit"},
		{"an answer that it is unavailable", status.Error(codes.Unavailable, "shard status unknown"), eventhook.ErrorHTTP5xx, "Unavailable: shard status unknown"},
		{"a fault", status.Error(codes.Internal, "\x00"+strings.Repeat("x", 10_000)), eventhook.ErrorHTTP5xx, "Internal"},
		{"no status", errors.New("what"), eventhook.ErrorHTTP5xx, "Unknown: what"},
		{"a timeout of the server", status.Error(codes.DeadlineExceeded, "history"), eventhook.ErrorTimeout, "in time"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			s.change(func() { s.failure = c.failure })
			if a := f.fails(f.target(s, nil), f.delivery(order), c.part, c.class); len(a.Error) > 400 || a.StatusCode != 0 {
				t.Errorf("got %d bytes and the status %d, want a short error without status", len(a.Error), a.StatusCode)
			}
		})
	}
	if n := f.brokers.Open(); n != 1 {
		t.Errorf("%d connections are open, want one: answers close none", n)
	}
	s.change(func() { s.failure = nil })
	f.sent(f.target(s, nil), f.delivery(order), 0)
}

func TestCredentialsThatExpire(t *testing.T) {
	f, s := setUp(t), newServer(t, trusted())
	to, d := f.target(s, nil), f.delivery(order)
	s.change(func() { s.key = "renewed" })
	f.fails(to, d, "expired", eventhook.ErrorAuth)
	f.sent(f.target(s, map[string]any{"api_key": "renewed"}), d, 0)
	s.change(func() { s.key = secret })
	f.sent(to, d, 0)
}

func TestAnEventThatTemporalCannotTakeIsNotSent(t *testing.T) {
	f, s := setUp(t), newServer(t, trusted())
	large := `{"id":"order-7","v":"` + strings.Repeat("x", 4<<20) + `"}`
	f.fails(f.target(s, nil), f.delivery(large), "at most 4 MiB", eventhook.ErrorRefused)
	f.fails(f.signal(s, nil), f.delivery(`{}`), "body.id", eventhook.ErrorRefused)
	if n := f.brokers.Open(); n != 0 {
		t.Errorf("%d connections are open, want none", n)
	}
	f.sent(f.target(s, nil), f.delivery(`{"id":"order-7","v":"`+strings.Repeat("x", 4<<20-100<<10)+`"}`), 0) // as large as possible
}

func TestRequestsOfATenantShareAConnection(t *testing.T) {
	f, s := setUp(t), newServer(t, trusted())
	start, signal := f.target(s, map[string]any{"idempotency_key_path": nil}), f.signal(s, map[string]any{"timeout_seconds": 20})
	f.sent(f.target(s, nil), f.delivery(order), 0)
	const requests = 50
	var wait sync.WaitGroup
	for range requests {
		for _, to := range []*outbound.Target{start, signal} {
			wait.Go(func() {
				if a := to.Transport.Send(t.Context(), f.delivery(order), 1); !a.Succeeded() {
					t.Errorf("got %q: %s", a.ErrorClass, a.Error)
				}
			})
		}
	}
	wait.Wait()
	if n := f.brokers.Open(); n != 1 {
		t.Errorf("%d connections are open, want one", n)
	}
	if len(s.starts) != requests+1 || len(s.signals) != requests {
		t.Errorf("got %d starts and %d signals", len(s.starts), len(s.signals))
	}
	f.tenant = eventhook.NewID[eventhook.Tenant](time.Now())
	f.sent(f.target(s, map[string]any{"idempotency_key_path": nil}), f.delivery(order), 0)
	if n := f.brokers.Open(); n != 2 {
		t.Errorf("%d connections are open, want another one for another tenant", n)
	}
}
