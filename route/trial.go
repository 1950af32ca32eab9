package route

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/script"
)

// scripts is what runs what tenants wrote, such as a script.Pool.
type scripts interface {
	Run(ctx context.Context, program script.Program, input []byte) (json.RawMessage, error)
	Check(ctx context.Context, program script.Program) error
}

// longestWait is how long somebody who tries out a script waits for his turn.
const longestWait = 5 * time.Second

// errTooMany answers who had no turn in that time.
var errTooMany = &eventhook.Error{
	Kind: eventhook.KindUnavailable, RetryAfter: longestWait,
	Message: "Too many scripts are being tried out: try again.",
}

// trials lets people try out scripts, each tenant one at a time, so that who
// tries many that hang waits for himself and makes nobody else wait for more
// than one of them. Safe for concurrent use.
type trials struct {
	scripts scripts

	mu    sync.Mutex
	turns map[eventhook.TenantID]*turn // of those who try something or wait
}

// turn is one tenant's.
type turn struct {
	taken   chan struct{} // holds one while something is tried out
	callers int
}

func newTrials(s scripts) *trials {
	return &trials{scripts: s, turns: map[eventhook.TenantID]*turn{}}
}

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

func (t *trials) inTurn(ctx context.Context, tenant eventhook.TenantID, do func(context.Context) error) error {
	waiting, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	mine := t.join(tenant)
	defer t.leave(tenant, mine)
	var err error
	select {
	case mine.taken <- struct{}{}:
		err = do(waiting)
		<-mine.taken
	case <-waiting.Done():
		err = waiting.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return errTooMany
	}
	return err
}

func (t *trials) join(tenant eventhook.TenantID) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine, ok := t.turns[tenant]
	if !ok {
		mine = &turn{taken: make(chan struct{}, 1)}
		t.turns[tenant] = mine
	}
	mine.callers++
	return mine
}

func (t *trials) leave(tenant eventhook.TenantID, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.callers--; mine.callers == 0 {
		delete(t.turns, tenant)
	}
}
