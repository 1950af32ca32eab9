//go:build temporal

package temporal

import (
	"context"
	"encoding/json"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/targets"
)

// start starts a workflow.
func (c *connection) start(ctx context.Context, t *targets.Temporal, q targets.TemporalRequest) (receipt, error) {
	about := payloadOf(encoded(q.Origin))
	answer, err := call(ctx, c, t, c.service.StartWorkflowExecution, &workflowservice.StartWorkflowExecutionRequest{
		Namespace: t.Namespace, WorkflowId: q.WorkflowID, RequestId: q.ID, Identity: c.name,
		WorkflowType: &common.WorkflowType{Name: q.Start.Type}, TaskQueue: &taskqueue.TaskQueue{Name: q.Start.Queue},
		Input: payloads(q.Argument), Header: headerOf(q), Memo: &common.Memo{Fields: map[string]*common.Payload{originField: about}},
		WorkflowExecutionTimeout: duration(q.Start.ExecutionTimeout), WorkflowRunTimeout: duration(q.Start.RunTimeout),
		WorkflowIdReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIdConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
	})
	r := receipt{text: "workflow " + q.WorkflowID}
	run := answer.GetRunId()
	if existing := existingWorkflow(err); existing != nil {
		run, err = existing.GetRunId(), nil
		if existing.GetStartRequestId() != q.ID { // otherwise an earlier attempt has started it
			r.text, r.status = r.text+" existed already", eventhook.StatusExisted
		}
	}
	if isNotFound(err) {
		err = refusal(err)
	}
	if run != "" {
		r.text += ", run " + run
	}
	return r, err
}

// signal sends a signal to a workflow.
func (c *connection) signal(ctx context.Context, t *targets.Temporal, q targets.TemporalRequest) (receipt, error) {
	_, err := call(ctx, c, t, c.service.SignalWorkflowExecution, &workflowservice.SignalWorkflowExecutionRequest{
		Namespace: t.Namespace, WorkflowExecution: &common.WorkflowExecution{WorkflowId: q.WorkflowID}, SignalName: q.Signal,
		RequestId: q.ID, Identity: c.name, Input: payloads(q.Argument), Header: headerOf(q),
	})
	r := receipt{text: "signal " + q.Signal + " to the workflow " + q.WorkflowID}
	if isNotFound(err) {
		r.status, err = eventhook.StatusNoWorkflow, errNoWorkflow
	}
	return r, err
}

// call makes a request with the credentials of a target.
func call[Q, A any](ctx context.Context, c *connection, t *targets.Temporal,
	method func(context.Context, *Q, ...grpc.CallOption) (*A, error), q *Q) (*A, error) {
	headers := []string{"temporal-namespace", t.Namespace}
	if t.APIKey != "" {
		headers = append(headers, "authorization", "Bearer "+t.APIKey)
	}
	var header, trailer metadata.MD // of an answer
	answer, err := method(metadata.AppendToOutgoingContext(ctx, headers...), q, grpc.Header(&header), grpc.Trailer(&trailer))
	if err != nil {
		return nil, c.describe(err, len(header)+len(trailer) > 0)
	}
	return answer, nil
}

// Fields of the header of a request, which workers can read.
const (
	originField = "eventhook"
	traceField  = "_tracer-data" // of the SDKs' interceptors for OpenTelemetry
)

func headerOf(q targets.TemporalRequest) *common.Header {
	return &common.Header{Fields: map[string]*common.Payload{
		originField: payloadOf(encoded(q.Origin)),
		traceField:  payloadOf(encoded(map[string]string{"traceparent": q.Origin.Traceparent})),
	}}
}

// payloadOf returns JSON as the default data converter of the SDKs encodes it.
func payloadOf(data json.RawMessage) *common.Payload {
	return &common.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: data}
}

func payloads(argument json.RawMessage) *common.Payloads {
	return &common.Payloads{Payloads: []*common.Payload{payloadOf(argument)}}
}

func encoded(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts only
	}
	return raw
}

// duration returns nil, which means none, for 0.
func duration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}
