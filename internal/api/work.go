package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

// WorkStore leases executions to workers and settles them. If the lease token is not
// current, a method returns eventhook.ErrLeaseLost and changes nothing. The channel of
// WorkWake is closed when work of a queue may have become due. NextWork returns when
// the next work of a queue becomes due.
type WorkStore interface {
	ClaimWork(ctx context.Context, q eventhook.WorkQuery) ([]eventhook.Execution, error)
	NextWork(ctx context.Context, q eventhook.WorkQuery) (time.Time, error)
	// StartWork stores an execution. If its idempotency key is taken, it returns the
	// existing one.
	StartWork(ctx context.Context, x eventhook.Execution) (_ eventhook.Execution, started bool, err error)
	WorkWake(tenant eventhook.TenantID, queue string) <-chan struct{}
	Heartbeat(ctx context.Context, x eventhook.Execution, lease time.Duration) (time.Time, error)
	Complete(ctx context.Context, x eventhook.Execution) (eventhook.Execution, error)
	CompleteAll(ctx context.Context, tenant eventhook.TenantID, list []eventhook.Execution) (answers []error, err error)
	Fail(ctx context.Context, x eventhook.Execution, message string, retryable bool, policy eventhook.RetryPolicy) (time.Time, error)
	Suspend(ctx context.Context, x eventhook.Execution, s eventhook.Suspension) error
	Cancel(ctx context.Context, tenant eventhook.TenantID, id eventhook.ExecutionID) (eventhook.Execution, error)
	Retry(ctx context.Context, tenant eventhook.TenantID, id eventhook.ExecutionID) (eventhook.Execution, error)
	Execution(ctx context.Context, tenant eventhook.TenantID, id eventhook.ExecutionID) (eventhook.Execution, error)
	Awaited(ctx context.Context, x eventhook.Execution) ([]eventhook.Promise, error)
	Executions(ctx context.Context, tenant eventhook.TenantID, f eventhook.ExecutionFilter) ([]eventhook.Execution, error)
}

type claimRequest struct {
	TenantPath
	Body struct {
		Queue        string   `json:"queue,omitempty" default:"default" minLength:"1" maxLength:"100" doc:"Queue to claim from."`
		Kinds        []string `json:"kinds,omitempty" maxItems:"100" doc:"Claim only these kinds; default all."`
		Max          int      `json:"max,omitempty" default:"10" minimum:"1" maximum:"250" doc:"Maximum number of executions to claim."`
		WaitSeconds  int      `json:"wait_seconds,omitempty" minimum:"0" maximum:"60" doc:"Seconds to wait for work if none is due."`
		LeaseSeconds int      `json:"lease_seconds,omitempty" default:"30" minimum:"1" maximum:"3600" doc:"Duration of the lease."`
	}
}

type workItem struct {
	ID             string          `json:"id" format:"uuid"`
	Type           string          `json:"type" enum:"workflow,task"`
	Kind           string          `json:"kind" doc:"Kind of the task or workflow."`
	Queue          string          `json:"queue" doc:"Queue of the execution."`
	EventID        *string         `json:"event_id" doc:"Event whose route created the execution; null if a caller started it."`
	IdempotencyKey *string         `json:"idempotency_key" doc:"Null if the execution has no key."`
	Input          json.RawMessage `json:"input" doc:"The event's body: as JSON if it can be parsed, as a string if it is other text, else as an object with the member base64."`
	Attempt        int             `json:"attempt" doc:"Number of this attempt, starting at 1."`
	Priority       int             `json:"priority" doc:"Priority in the queue, -100 to 100."`
	TraceID        string          `json:"trace_id" doc:"W3C trace id of the request that led to the execution."`
	Traceparent    string          `json:"traceparent" doc:"W3C trace context in which the worker continues the trace: its parent is the span that created the execution."`
	LeaseToken     int64           `json:"lease_token" doc:"Token of the lease, required by complete, fail, suspend and heartbeat."`
	LeaseUntil     time.Time       `json:"lease_until" doc:"When the lease expires, unless a heartbeat extends it."`
	State          json.RawMessage `json:"state,omitempty" doc:"State stored by the last suspend."`
	Promises       []promiseView   `json:"promises,omitempty" doc:"Promises that the workflow awaited."`
}

type claimAnswer struct {
	Body struct {
		Items []workItem `json:"items" doc:"Claimed executions; empty if none became due in time."`
	}
}

type executionView struct {
	ID             string          `json:"id" format:"uuid"`
	Type           string          `json:"type" enum:"workflow,task"`
	Kind           string          `json:"kind" doc:"Kind of the task or workflow."`
	Queue          string          `json:"queue"`
	Status         string          `json:"status" enum:"pending,running,completed,failed,dead,suspended,cancelled" doc:"pending: waiting to be claimed. running: claimed by a worker. completed: ended with success. failed: a retry is scheduled. dead: no attempts are left, or the failure cannot be retried. suspended: waiting for promises. cancelled: ended by a user."`
	EventID        *string         `json:"event_id" doc:"Event whose route created the execution; null if a caller started it."`
	IdempotencyKey *string         `json:"idempotency_key" doc:"Null if the execution has no key."`
	Attempt        int             `json:"attempt" doc:"Number of attempts so far."`
	MaxAttempts    int             `json:"max_attempts" doc:"Maximum number of attempts."`
	Priority       int             `json:"priority" doc:"Priority in the queue, -100 to 100."`
	TraceID        string          `json:"trace_id" doc:"W3C trace id of the request that led to the execution."`
	Input          json.RawMessage `json:"input,omitempty" doc:"Input; not included in lists."`
	State          json.RawMessage `json:"state,omitempty" doc:"State stored by the last suspend."`
	Promises       []promiseView   `json:"promises,omitempty" doc:"Promises that the workflow awaits or last awaited; not included in lists."`
	Output         json.RawMessage `json:"output,omitempty" doc:"Output of a completed execution."`
	Error          *string         `json:"error" doc:"Error of the last failed attempt; null if none."`
	DueAt          *time.Time      `json:"due_at" doc:"When the execution can be claimed; null if it cannot be claimed."`
	CreatedAt      time.Time       `json:"created_at"`
	CompletedAt    *time.Time      `json:"completed_at" doc:"When the execution ended; null before that."`
}

type executionAnswer struct{ Body executionView }

// WorkPath is the part of a path that identifies an execution.
type WorkPath struct {
	TenantPath
	ID string `path:"id" format:"uuid" doc:"Execution id."`
}

type workQuery struct {
	TenantPath
	PageQuery
	Type   string `query:"type" enum:"workflow,task" doc:"Return only executions of this type."`
	Status string `query:"status" enum:"pending,running,completed,failed,dead,suspended,cancelled" doc:"Return only executions with this status."`
	Kind   string `query:"kind" doc:"Return only executions of this kind."`
	Queue  string `query:"queue" doc:"Return only executions of this queue."`
}

func (s *server) registerWork(api huma.API) {
	s.registerStartWork(api)
	post := func(id, path, summary string) operation {
		return operation{id: id, method: http.MethodPost, path: base + "/work" + path, summary: summary, scope: eventhook.ScopeWork, tag: "work"}
	}
	claim := post("claim-work", "/claim", "Claim due executions")
	claim.class = ownLimits
	claim.about = "Leases executions of a queue to the caller, a worker. If none is due, waits up to wait_seconds. Each item has a lease_token, which complete, fail, suspend and heartbeat require."
	register(s, api, claim, s.claimWork)
	beat := post("heartbeat-work", "/{id}/heartbeat", "Extend the lease of an execution")
	beat.about = "Send a heartbeat after each third of the lease. 409 if the lease is lost: another worker may have claimed the execution."
	register(s, api, beat, s.heartbeat)
	one := post("complete-work", "/{id}/complete", "Complete an execution")
	one.about = "Stores the output and ends the execution. 409 if the lease is lost."
	one.maxBody, one.skipsShape, one.isFlat = resultBody, true, true
	register(s, api, one, s.complete)
	all := post("complete-many-work", "/complete", "Complete several executions")
	all.about = "Always 200 if the request is valid, even if some executions could not be completed. items contains a status or an error per execution, in the order of the request."
	all.maxBody, all.skipsShape = resultBody, true
	register(s, api, all, s.completeMany)
	fail := post("fail-work", "/{id}/fail", "Fail an execution")
	fail.maxBody, fail.about = errorBody, "Ends the current attempt with an error. The execution is retried with backoff if retryable is true and attempts are left, else it is dead. 409 if the lease is lost."
	register(s, api, fail, s.fail)
	suspend := post("suspend-work", "/{id}/suspend", "Suspend a workflow until promises are settled")
	suspend.about = "Stores the state and releases the lease. The workflow can be claimed again, with the state and the promises, when all promises are settled or the timeout is over. 409 if the lease is lost."
	suspend.maxBody, suspend.skipsShape, suspend.isFlat = resultBody, true, true
	register(s, api, suspend, s.suspend)
	cancel := post("cancel-work", "/{id}/cancel", "Cancel an execution")
	cancel.about = "409 if the execution has already ended."
	register(s, api, cancel, s.cancel)
	again := post("retry-work", "/{id}/retry", "Retry a failed, dead or cancelled execution")
	again.about = "The execution is due at once and its attempts are reset. A workflow continues with its state and its promises."
	register(s, api, again, s.retry)
	get := operation{id: "list-work", method: http.MethodGet, path: base + "/work", summary: "List executions", about: "Newest first.", scope: eventhook.ScopeWork, tag: "work"}
	register(s, api, get, s.listWork)
	get.id, get.path, get.summary, get.about = "get-work", base+"/work/{id}", "Get an execution", ""
	register(s, api, get, s.getWork)
}

func (s *server) claimWork(ctx context.Context, by caller, in *claimRequest) (*claimAnswer, error) {
	var faults eventhook.Faults
	checkText(&faults, "body.queue", in.Body.Queue)
	for i, k := range in.Body.Kinds {
		checkText(&faults, fmt.Sprintf("body.kinds[%d]", i), k)
	}
	if err := faults.Err(notValid); err != nil {
		return nil, err
	}
	q := eventhook.WorkQuery{Tenant: by.tenant, Queue: in.Body.Queue, Kinds: in.Body.Kinds, Max: in.Body.Max,
		Lease: time.Duration(in.Body.LeaseSeconds) * time.Second}
	list, err := s.claimOrWait(ctx, by, q, time.Duration(in.Body.WaitSeconds)*time.Second)
	if err != nil {
		return nil, err
	}
	by.reservation.addUnchecked(sizeOfWork(list) * shownWeight)
	s.OnWorkerAct("claimed", len(list))
	return viewClaimed(list), nil
}

// claimOrWait claims due executions. If there are none, it waits until it is woken,
// until the next execution is due, until maxWait is over, or until the server stops.
// If other callers already wait for the same work, it queues behind them without
// claiming first.
func (s *server) claimOrWait(ctx context.Context, by caller, q eventhook.WorkQuery, maxWait time.Duration) (list []eventhook.Execution, err error) {
	claim := func(o *waitState) (bool, error) {
		o.wake = s.Work.WorkWake(q.Tenant, q.Queue)
		if list, err = s.Work.ClaimWork(ctx, q); err != nil || len(list) > 0 || maxWait == 0 {
			return true, err
		}
		next, err := s.Work.NextWork(ctx, q)
		if err != nil {
			return true, err
		}
		const minDelay = 10 * time.Millisecond // another worker may be claiming the due execution
		now := s.Now()
		o.checkAt = now.Add(fallbackInterval)
		if !next.IsZero() && next.Before(o.checkAt) {
			o.checkAt = later(next, now.Add(minDelay))
		}
		return false, nil
	}
	key := workQueueKey(q)
	var seen waitState
	if maxWait == 0 || s.waitQueues.queues.Callers(key) == 0 {
		if done, err := claim(&seen); done {
			return list, err
		}
	}
	by.reservation.releaseForWait()
	err = s.waitQueues.wait(ctx, key, maxWait, seen, claim)
	return list, err
}

// workQueueKey identifies the queue of callers that wait for the same work. Queues and
// kinds contain no NUL.
func workQueueKey(q eventhook.WorkQuery) waitKey {
	kinds := slices.Compact(slices.Sorted(slices.Values(q.Kinds)))
	return waitKey{q.Tenant, "work " + strings.Join(append([]string{q.Queue}, kinds...), "\x00")}
}

func later(x, y time.Time) time.Time {
	if x.After(y) {
		return x
	}
	return y
}

func viewClaimed(list []eventhook.Execution) *claimAnswer {
	out := &claimAnswer{}
	out.Body.Items = make([]workItem, 0, len(list))
	for _, x := range list {
		item := workItem{
			ID: x.ID.String(), Type: string(x.Type), Kind: x.Kind, Queue: x.Queue, EventID: optionalID(x.EventID),
			IdempotencyKey: optional(x.IdempotencyKey), Input: input(x), Attempt: x.Attempt, Priority: x.Priority, TraceID: x.Trace(), Traceparent: x.Traceparent(),
			LeaseToken: x.Lease.Token,
			LeaseUntil: utc(x.Lease.Until), State: x.State,
		}
		item.Promises = viewPromises(x.Promises)
		out.Body.Items = append(out.Body.Items, item)
	}
	return out
}

// sizeOfWork returns the total size of states, outputs, inputs and bodies in bytes.
func sizeOfWork(list []eventhook.Execution) (n int64) {
	for _, x := range list {
		n += int64(len(x.Input) + len(x.State) + len(x.Output))
		if x.Payload != nil {
			n += int64(len(x.Payload.Body))
		}
		for _, p := range x.Promises {
			n += int64(len(p.Value))
		}
	}
	return n
}

// input returns the input of an execution: its own, or the body of its event.
func input(x eventhook.Execution) json.RawMessage {
	switch {
	case x.Input != nil:
		return x.Input
	case x.Payload != nil:
		block := payload.HeaderBlock(x.Payload.Headers)
		return payload.New(nil, block, block.Get("Content-Type"), x.Payload.Body).Render()
	}
	return json.RawMessage("null")
}

// leasedExecution returns an execution with the lease that a worker presents.
func leasedExecution(by caller, id string, token int64) (eventhook.Execution, error) {
	xid, err := eventhook.ParseID[eventhook.Execution](id)
	return eventhook.Execution{ID: xid, TenantID: by.tenant, Lease: eventhook.Lease{Token: token}}, err
}

type heartbeatRequest struct {
	WorkPath
	Body struct {
		LeaseToken   int64 `json:"lease_token" doc:"Token of the lease, from claim."`
		LeaseSeconds int   `json:"lease_seconds,omitempty" minimum:"1" maximum:"3600" doc:"Duration of the lease from now; default the duration of the claim. A lease is never shortened."`
	}
}

type heartbeatAnswer struct {
	Body struct {
		LeaseUntil time.Time `json:"lease_until" doc:"When the lease expires now."`
	}
}

func (s *server) heartbeat(ctx context.Context, by caller, in *heartbeatRequest) (*heartbeatAnswer, error) {
	x, err := leasedExecution(by, in.ID, in.Body.LeaseToken)
	if err != nil {
		return nil, err
	}
	until, err := s.Work.Heartbeat(ctx, x, time.Duration(in.Body.LeaseSeconds)*time.Second)
	if err != nil {
		return nil, err
	}
	out := &heartbeatAnswer{}
	out.Body.LeaseUntil = utc(until)
	return out, nil
}

type completeRequest struct {
	WorkPath
	Body document[completeRequestBody]
}

type completeRequestBody struct {
	LeaseToken int64           `json:"lease_token" doc:"Token of the lease, from claim."`
	Output     json.RawMessage `json:"output,omitempty" doc:"Result of the execution: any JSON value."`
}

func (s *server) complete(ctx context.Context, by caller, in *completeRequest) (*executionAnswer, error) {
	body, err := in.Body.readWithRaw(s, "output")
	if err != nil {
		return nil, err
	}
	x, err := leasedExecution(by, in.ID, body.LeaseToken)
	if err != nil {
		return nil, err
	}
	x.Output = body.Output
	done, err := s.Work.Complete(ctx, x)
	if err != nil {
		return nil, err
	}
	s.OnWorkerAct("completed", 1)
	return &executionAnswer{viewExecution(done)}, nil
}

type failRequest struct {
	WorkPath
	Body struct {
		LeaseToken int64  `json:"lease_token" doc:"Token of the lease, from claim."`
		Error      string `json:"error" maxLength:"10000" doc:"Why the attempt failed."`
		Retryable  *bool  `json:"retryable,omitempty" doc:"Whether to retry if attempts are left; default true."`
	}
}

func (s *server) fail(ctx context.Context, by caller, in *failRequest) (*executionAnswer, error) {
	x, err := leasedExecution(by, in.ID, in.Body.LeaseToken)
	if err != nil {
		return nil, err
	}
	retryable := in.Body.Retryable == nil || *in.Body.Retryable
	next, err := s.Work.Fail(ctx, x, in.Body.Error, retryable, eventhook.ExecutionRetry)
	if err != nil {
		return nil, err
	}
	if next.IsZero() {
		s.OnWorkerAct("dead", 1)
	} else {
		s.OnWorkerAct("failed", 1)
	}
	return s.answerSettled(ctx, by, x.ID)
}

type suspendRequest struct {
	WorkPath
	Body document[suspendRequestBody]
}

type suspendRequestBody struct {
	LeaseToken     int64           `json:"lease_token" doc:"Token of the lease, from claim."`
	State          json.RawMessage `json:"state,omitempty" doc:"Any JSON value, which the next claim returns."`
	Await          []string        `json:"await" minItems:"1" maxItems:"100" doc:"Ids of the promises to await."`
	TimeoutSeconds int             `json:"timeout_seconds,omitempty" minimum:"0" maximum:"31536000" doc:"Seconds after which the workflow resumes even if promises are open; 0 (default): no timeout."`
}

func (s *server) suspend(ctx context.Context, by caller, in *suspendRequest) (*executionAnswer, error) {
	body, err := in.Body.readWithRaw(s, "state")
	if err != nil {
		return nil, err
	}
	x, err := leasedExecution(by, in.ID, body.LeaseToken)
	if err != nil {
		return nil, err
	}
	suspension := eventhook.Suspension{State: body.State, Timeout: time.Duration(body.TimeoutSeconds) * time.Second}
	var bad eventhook.Faults
	for i, id := range body.Await {
		suspension.Await = append(suspension.Await, idAt[eventhook.Promise](&bad, fmt.Sprintf("body.await[%d]", i), id))
	}
	if err := malformed(bad); err != nil {
		return nil, err
	}
	if err := s.Work.Suspend(ctx, x, suspension); err != nil {
		return nil, err
	}
	s.OnWorkerAct("suspended", 1)
	return s.answerSettled(ctx, by, x.ID)
}

func (s *server) cancel(ctx context.Context, by caller, in *WorkPath) (*executionAnswer, error) {
	return s.changeWork(ctx, by, in.ID, s.Work.Cancel)
}

func (s *server) retry(ctx context.Context, by caller, in *WorkPath) (*executionAnswer, error) {
	return s.changeWork(ctx, by, in.ID, s.Work.Retry)
}

func (s *server) changeWork(ctx context.Context, by caller, id string,
	change func(context.Context, eventhook.TenantID, eventhook.ExecutionID) (eventhook.Execution, error),
) (*executionAnswer, error) {
	xid, err := eventhook.ParseID[eventhook.Execution](id)
	if err != nil {
		return nil, err
	}
	x, err := change(ctx, by.tenant, xid)
	return &executionAnswer{viewExecution(x)}, err
}

func (s *server) listWork(ctx context.Context, by caller, in *workQuery) (*page[executionView], error) {
	pages := s.pager("work", by.tenant)
	before, err := cursorOf[eventhook.Execution](pages, in.Cursor)
	if err != nil {
		return nil, err
	}
	list, err := s.Work.Executions(ctx, by.tenant, eventhook.ExecutionFilter{
		Type: eventhook.ExecutionType(in.Type), Status: eventhook.ExecutionStatus(in.Status), Kind: in.Kind, Queue: in.Queue,
		Before: before, Limit: in.Limit + 1,
	})
	if err != nil {
		return nil, err
	}
	by.reservation.addUnchecked(sizeOfWork(list) * copiedWeight)
	return newPage(pages, list, fittingLimit(list, in.Limit), viewExecution, func(x eventhook.Execution) eventhook.ExecutionID { return x.ID }), nil
}

func (s *server) getWork(ctx context.Context, by caller, in *WorkPath) (*executionAnswer, error) {
	id, err := eventhook.ParseID[eventhook.Execution](in.ID)
	if err != nil {
		return nil, err
	}
	return s.execution(ctx, by, id)
}

// answerSettled returns the response with an execution that the caller has just
// settled. It omits the input, which the worker has.
func (s *server) answerSettled(ctx context.Context, by caller, id eventhook.ExecutionID) (*executionAnswer, error) {
	x, err := s.Work.Execution(ctx, by.tenant, id)
	if err != nil {
		return nil, err
	}
	return &executionAnswer{viewExecution(x)}, nil
}

// execution returns the response with an execution, its input and the promises that it
// awaits.
func (s *server) execution(ctx context.Context, by caller, id eventhook.ExecutionID) (*executionAnswer, error) {
	x, err := s.Work.Execution(ctx, by.tenant, id)
	if err != nil {
		return nil, err
	}
	if x.Input == nil && !x.EventID.IsZero() {
		payloads, err := s.Events.Payloads(ctx, []eventhook.EventID{x.EventID})
		if err != nil {
			return nil, err
		}
		if p, ok := payloads[x.EventID]; ok {
			x.Payload = &p
		}
	}
	if x.Promises, err = s.Work.Awaited(ctx, x); err != nil {
		return nil, err
	}
	by.reservation.addUnchecked(sizeOfWork([]eventhook.Execution{x}) * shownWeight)
	v := viewExecution(x)
	v.Input, v.Promises = input(x), viewPromises(x.Promises)
	return &executionAnswer{v}, nil
}

func viewExecution(x eventhook.Execution) executionView {
	return executionView{
		ID: x.ID.String(), Type: string(x.Type), Kind: x.Kind, Queue: x.Queue, Status: string(x.Status), EventID: optionalID(x.EventID),
		IdempotencyKey: optional(x.IdempotencyKey), Attempt: x.Attempt, MaxAttempts: x.MaxAttempts, Priority: x.Priority,
		TraceID: x.Trace(), State: x.State, Output: x.Output,
		Error: optional(x.Error), DueAt: optionalUTC(x.DueAt), CreatedAt: utc(x.CreatedAt), CompletedAt: optionalUTC(x.CompletedAt),
	}
}
