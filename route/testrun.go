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

// scriptRunner runs and compiles programs of tenants. script.Pool implements it.
type scriptRunner interface {
	Run(ctx context.Context, program script.Program, input []byte) (json.RawMessage, error)
	Check(ctx context.Context, program script.Program) error
}

// maxTestWait is how long a test waits for a slot.
const maxTestWait = 5 * time.Second

// errTestsBusy is the refusal of a test that got no slot within maxTestWait.
var errTestsBusy = &eventhook.Error{
	Kind: eventhook.KindUnavailable, RetryAfter: maxTestWait,
	Message: "Too many tests are running: try again later.",
}

// testRunner runs the scripts that callers of the API test, one at a time for each tenant. If a
// tenant tests many hanging scripts, its own tests wait for each other; a test of another tenant
// waits for at most one of these scripts. It is safe for concurrent use.
type testRunner struct {
	scripts scriptRunner
	oneAtATime
}

// oneAtATime gives each tenant one slot. It is safe for concurrent use.
type oneAtATime struct {
	queues *roundrobin.Queues[eventhook.TenantID, struct{}]
}

func newTestRunner(s scriptRunner) *testRunner {
	return &testRunner{scripts: s, oneAtATime: newOneAtATime()}
}

func newOneAtATime() oneAtATime {
	return oneAtATime{roundrobin.NewQueues[eventhook.TenantID, struct{}](1)}
}

// run runs a program. The error is a *script.Error, errTestsBusy or ctx's error.
func (t *testRunner) run(ctx context.Context, tenant eventhook.TenantID, program script.Program, input []byte) (out json.RawMessage, err error) {
	err = t.runFor(ctx, tenant, func(ctx context.Context) error {
		out, err = t.scripts.Run(ctx, program, input)
		return err
	})
	return out, err
}

// check compiles a program. It returns the same errors as run.
func (t *testRunner) check(ctx context.Context, tenant eventhook.TenantID, program script.Program) error {
	return t.runFor(ctx, tenant, func(ctx context.Context) error { return t.scripts.Check(ctx, program) })
}

// runFor calls do when the tenant's slot is free. The context of do ends when the test has waited
// for maxTestWait in all; do must use it only to wait for further slots. runFor returns the error of
// do, errTestsBusy or ctx's error.
func (t *oneAtATime) runFor(ctx context.Context, tenant eventhook.TenantID, do func(waiting context.Context) error) error {
	waiting, cancel := context.WithTimeout(ctx, maxTestWait)
	defer cancel()
	queue := t.queues.Open(tenant)
	defer t.queues.Close(tenant)
	var err error
	select {
	case <-queue.Slot():
		defer queue.Release()
		err = do(waiting)
	case <-waiting.Done():
		err = waiting.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return errTestsBusy
	}
	return err
}
