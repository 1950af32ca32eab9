// Package transform runs the transforms of subscriptions over the events that are sent to
// them.
//
// A transform runs in a process of package script, within its limits of time, memory and
// output. Tenants share the processes in round robin, and no tenant can use all of them at once.
// A JMESPath expression whose cost can be counted (see script.Evaluator) runs in the process of
// the caller instead, for up to one slice of package meter, which is about a millisecond. Both are
// taken from the tenant's share of processor time (package cpushare).
package transform

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/roundrobin"
	"github.com/eventhook/eventhook/internal/script"
	"github.com/eventhook/eventhook/outbound/send"
)

// Scripts runs programs. script.Pool implements it.
type Scripts interface {
	Run(ctx context.Context, program script.Program, input []byte) (json.RawMessage, error)
}

// Runner implements send.Transformer. Safe for concurrent use.
type Runner struct {
	scripts   Scripts
	evaluator *script.Evaluator
	limiter   *cpushare.Limiter
	slots     *roundrobin.Slots[eventhook.TenantID]
	now       func() time.Time
}

// maxExpressions bounds the cached expressions, which take up to 100 KB each and usually 2 KB.
const maxExpressions = 1000

// Pools has a pool for each language. JMESPath is short, and its processes have the priority
// of the gateway. JavaScript has processes of a low priority, as in routes.
type Pools struct{ JMESPath, JavaScript Scripts }

// NewPools returns pools with this number of processes each, which start on demand.
func NewPools(processes int) Pools {
	return Pools{script.NewPromptPool(processes, script.TimeLimit), script.NewPool(processes, script.TimeLimit)}
}

// Run implements Scripts.
func (p Pools) Run(ctx context.Context, program script.Program, input []byte) (json.RawMessage, error) {
	if program.Kind == script.JMESPath {
		return p.JMESPath.Run(ctx, program, input)
	}
	return p.JavaScript.Run(ctx, program, input)
}

// Waiting for a process.
const (
	maxWait    = 2 * time.Second
	maxWaiting = 10_000 // of one tenant; the dispatcher bounds the sends before
)

// NewRunner returns a runner over a pool with this number of processes, at least 2.
func NewRunner(scripts Scripts, processes int, limiter *cpushare.Limiter, now func() time.Time) *Runner {
	slots := roundrobin.NewSlots[eventhook.TenantID](processes, processes-1, maxWaiting)
	return &Runner{scripts: scripts, evaluator: script.NewEvaluator(maxExpressions), limiter: limiter, slots: slots, now: now}
}

var _ send.Transformer = (*Runner)(nil)

// kinds maps the type of a transform to the kind of its program.
var kinds = map[string]script.Kind{eventhook.TransformJMESPath: script.JMESPath, eventhook.TransformJavaScript: script.Reshape}

var (
	errShare = &send.TransformError{IsBusy: true, Reason: "transform: not run, because the tenant's share of time for expressions is used up"}
	errBusy  = &send.TransformError{IsBusy: true, Reason: "transform: not run, because too many transforms are running"}
)

// Transform implements send.Transformer.
func (r *Runner) Transform(ctx context.Context, tenant eventhook.TenantID, t *eventhook.Transform, event []byte) (json.RawMessage, error) {
	kind, ok := kinds[t.Type]
	if !ok {
		return nil, &send.TransformError{Reason: "transform: its type is unknown to this version of the gateway"}
	}
	program := script.Program{Kind: kind, Source: t.Expression}
	if kind == script.JMESPath {
		if result, isDone, err := r.evaluate(ctx, tenant, program.Source, event); isDone {
			return result, err
		}
	}
	if err := r.slots.Acquire(ctx, tenant, maxWait); err != nil {
		return nil, errBusy
	}
	defer r.slots.Release(tenant)
	result, err := r.run(ctx, tenant, program, event)
	if fault, ok := errors.AsType[*script.Error](err); ok {
		return nil, &send.TransformError{Reason: "transform: " + eventhook.SanitizeText(fault.Error()), IsBusy: fault.IsInfrastructure()}
	}
	return result, err
}

// evaluate runs an expression in this process. isDone is false if a script process must run it.
func (r *Runner) evaluate(ctx context.Context, tenant eventhook.TenantID, source string,
	event []byte) (result json.RawMessage, isDone bool, err error) {
	m := meter.New(ctx, meter.Slice, r.limiter.Bucket(tenant))
	defer m.Close()
	result, ok := r.evaluator.Evaluate(m, source, event)
	switch err := m.Err(); {
	case ok:
		return result, true, nil
	case errors.Is(err, meter.ErrShare):
		r.limiter.Count(cpushare.Transforms, cpushare.Refused)
		return nil, true, errShare
	case err != nil && !errors.Is(err, meter.ErrLimit):
		return nil, true, err // of ctx
	}
	return nil, false, nil
}

// run takes the time limit of a run from the tenant's share, and corrects it afterwards to
// the time that the run took, and that the evaluator took to parse the expression.
func (r *Runner) run(ctx context.Context, tenant eventhook.TenantID, p script.Program, event []byte) (json.RawMessage, error) {
	share, reserved := r.limiter.Bucket(tenant), meter.StepsIn(script.TimeLimit)
	if !share.Take(reserved) {
		r.limiter.Count(cpushare.Transforms, cpushare.Refused)
		return nil, errShare
	}
	began := r.now()
	result, err := r.scripts.Run(ctx, p, event)
	if err == nil && p.Kind == script.JMESPath {
		r.evaluator.Learn(p.Source)
	}
	if used := meter.StepsIn(r.now().Sub(began)); used < reserved {
		share.Return(reserved - used)
	} else {
		share.Charge(used - reserved)
	}
	return result, err
}
