package route

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/roundrobin"
	"github.com/eventhook/eventhook/internal/script"
)

// scripts is what runs what tenants wrote, such as a script.Pool.
type scripts interface {
	Run(ctx context.Context, program script.Program, input []byte) (json.RawMessage, error)
	Check(ctx context.Context, program script.Program) error
}

// longestWait is how long somebody who tries something out waits for his turn.
const longestWait = 5 * time.Second

// errTooMany answers who had no turn in that time.
var errTooMany = &eventhook.Error{
	Kind: eventhook.KindUnavailable, RetryAfter: longestWait,
	Message: "Too much is being tried out at this moment: try again.",
}

// trials lets people try out scripts, each tenant one at a time, so that who
// tries many that hang waits for himself and makes nobody else wait for more
// than one of them. Safe for concurrent use.
type trials struct {
	scripts scripts
	tenants
}

// tenants do one thing at a time each. Safe for concurrent use.
type tenants struct {
	lines *roundrobin.Queues[eventhook.TenantID, struct{}]
}

func newTrials(s scripts) *trials {
	return &trials{scripts: s, tenants: newTenants()}
}

func newTenants() tenants { return tenants{roundrobin.NewQueues[eventhook.TenantID, struct{}](1)} }

// run tries a program out. The error is a *script.Error, errTooMany, or that
// of ctx, whose end gives the place in the queue up.
func (t *trials) run(ctx context.Context, tenant eventhook.TenantID, program script.Program, input []byte) (out json.RawMessage, err error) {
	err = t.inTurn(ctx, tenant, func(ctx context.Context) error {
		out, err = t.scripts.Run(ctx, program, input)
		return err
	})
	return out, err
}

// check compiles a program, with the errors of run.
func (t *trials) check(ctx context.Context, tenant eventhook.TenantID, program script.Program) error {
	return t.inTurn(ctx, tenant, func(ctx context.Context) error { return t.scripts.Check(ctx, program) })
}

// inTurn does something when it is the tenant's turn. What it does is told
// until when it may wait for others. The error is its own, errTooMany, or that
// of ctx.
func (t *tenants) inTurn(ctx context.Context, tenant eventhook.TenantID, do func(waiting context.Context) error) error {
	waiting, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	mine := t.lines.Open(tenant)
	defer t.lines.Close(tenant)
	var err error
	select {
	case <-mine.Slot():
		defer mine.Release()
		err = do(waiting)
	case <-waiting.Done():
		err = waiting.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return errTooMany
	}
	return err
}
