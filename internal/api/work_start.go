package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// WorkStart is work to start.
type WorkStart struct {
	Type           string          `json:"type" enum:"task,workflow"`
	Kind           string          `json:"kind" minLength:"1" maxLength:"100" example:"send-invoice" doc:"Kind of the task or workflow. Workers choose their handler by it."`
	Queue          string          `json:"queue,omitempty" minLength:"1" maxLength:"100" doc:"Queue from which workers claim it; default the queue named default."`
	Input          json.RawMessage `json:"input" doc:"Input for the worker: any JSON value."`
	IdempotencyKey string          `json:"idempotency_key,omitempty" nullable:"true" maxLength:"255" doc:"For a day, a second request with the same key, type and kind starts nothing, even with another input: the response is 200 with the first execution. Targets of routes share these keys."`
	Priority       int             `json:"priority,omitempty" minimum:"-100" maximum:"100" doc:"Place in the queue: work is claimed in the order of the time at which it is due, minus a minute per step of its priority. Default 0."`
	RunAt          *time.Time      `json:"run_at,omitempty" nullable:"true" doc:"When the work is due, at most a year ahead; default and at the earliest now."`
	MaxAttempts    int             `json:"max_attempts,omitempty" minimum:"1" maximum:"100" doc:"Maximum number of attempts; default 4."`
}

type startWorkRequest struct {
	TenantPath
	// Traceparent documents the header. The caller has its trace.
	Traceparent string `header:"traceparent" doc:"W3C trace context, whose trace id the execution gets."`
	Body        document[WorkStart]
}

type startedWork struct {
	Status int
	Body   executionView
}

func (s *server) registerStartWork(api huma.API) {
	op := operation{id: "start-work", method: http.MethodPost, path: base + "/work", summary: "Start a task or a workflow",
		scope: eventhook.ScopeWork, tag: "work",
		status: http.StatusCreated, alsoStatus: http.StatusOK, maxBody: resultBody, skipsShape: true, isFlat: true, isAccept: true,
		about: "Starts work without a webhook: workers claim it like work that a route created. 201 if it is new; " +
			"200 with the existing execution if the idempotency key was used for the same type and kind within a day, even with another input. " +
			"429 if the tenant's quota is used up: new work counts like an event."}
	register(s, api, op, s.startWork)
}

func (s *server) startWork(ctx context.Context, by caller, in *startWorkRequest) (*startedWork, error) {
	body, shape, err := in.Body.shapeWithRaw(s, smallBody, "input")
	if err != nil {
		return nil, err
	}
	if hasHugeNumber(body.Input) {
		shape.Add("body.input", "contains a number that is too large")
	}
	if err := combinedError(shape, body.check(s.Now())); err != nil {
		return nil, err
	}
	x, started, err := s.startWithinQuota(ctx, in.Tenant, eventhook.Execution{TenantID: by.tenant, Type: eventhook.ExecutionType(body.Type),
		Kind: body.Kind, Queue: cmp.Or(body.Queue, eventhook.DefaultQueue), Input: body.Input, IdempotencyKey: body.IdempotencyKey, Priority: body.Priority,
		DueAt: body.RunAt, MaxAttempts: cmp.Or(body.MaxAttempts, eventhook.DefaultMaxAttempts), TraceID: by.trace, TraceFlags: by.traceFlags})
	if err != nil {
		return nil, err
	}
	out := &startedWork{Status: http.StatusOK, Body: viewExecution(x)}
	if started {
		out.Status = http.StatusCreated
		s.OnWorkerAct("started", 1)
	}
	return out, nil
}

// startWithinQuota starts work, which counts towards the quota of the tenant like an event with
// the input as its body. Work that exists already does not count.
func (s *server) startWithinQuota(ctx context.Context, tenant string, x eventhook.Execution) (_ eventhook.Execution, started bool, err error) {
	account, err := s.accounts.Get(ctx, tenant)
	if err != nil {
		return x, false, err
	}
	now, size := s.Now(), len(x.Input)
	if excess := account.Take(size, now); excess != nil {
		return x, false, quotaError(excess, now)
	}
	x, started, err = s.Work.StartWork(ctx, x)
	if err != nil || !started {
		account.Return(size, now)
	}
	return x, started, err
}

// check returns the faults that the schema does not find.
func (b WorkStart) check(now time.Time) (rules eventhook.Faults) {
	checkText(&rules, "body.kind", b.Kind)
	checkText(&rules, "body.queue", b.Queue)
	if eventhook.NormalizeKey(b.IdempotencyKey) != b.IdempotencyKey {
		rules.Add("body.idempotency_key", "must be at most %d bytes of text without NUL", eventhook.MaxKeyBytes)
	}
	if b.RunAt != nil && b.RunAt.After(now.Add(eventhook.MaxStartDelay)) {
		rules.Add("body.run_at", "must be at most %d days ahead", int(eventhook.MaxStartDelay/(24*time.Hour)))
	}
	return rules
}
