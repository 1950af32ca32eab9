package route

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/script"
)

// oneProcess runs one script at a time, each for 400 ms.
type oneProcess struct {
	slot chan struct{}
	runs atomic.Int64
}

func (o *oneProcess) Run(ctx context.Context, _ script.Program, _ []byte) (json.RawMessage, error) {
	return nil, o.Check(ctx, script.Program{})
}

func (o *oneProcess) Check(ctx context.Context, _ script.Program) error {
	select {
	case o.slot <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	o.runs.Add(1)
	time.Sleep(400 * time.Millisecond)
	<-o.slot
	return &script.Error{Reason: script.TimedOut, Message: "it was stopped"}
}

var mine, theirs = eventhook.TenantID{1}, eventhook.TenantID{2}

func withTestRunner(t *testing.T, f func(t *testing.T, o *oneProcess, runner *testRunner)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &oneProcess{slot: make(chan struct{}, 1)}
		f(t, o, newTestRunner(o))
	})
}

func TestATenantsTestsWaitForEachOther(t *testing.T) {
	withTestRunner(t, func(t *testing.T, _ *oneProcess, runner *testRunner) {
		var callers sync.WaitGroup
		var answered, refused atomic.Int64
		for range 60 {
			callers.Go(func() {
				_, err := runner.run(t.Context(), mine, script.Program{}, nil)
				switch e, _ := errors.AsType[*eventhook.Error](err); {
				case isScriptResult(err):
					answered.Add(1)
				case e != nil && e.Kind == eventhook.KindUnavailable && e.RetryAfter > 0:
					refused.Add(1)
				default:
					t.Errorf("got %v, want a result or KindUnavailable with RetryAfter", err)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		if err := runner.check(t.Context(), theirs, script.Program{}); !isScriptResult(err) {
			t.Errorf("another tenant: got %v, want a result", err)
		}
		if got, most := time.Since(began), 800*time.Millisecond; got > most {
			t.Errorf("another tenant: got a result after %s, want at most %s: one run of the first tenant and its own", got, most)
		}
		callers.Wait()
		if got, most := time.Since(began), maxTestWait+400*time.Millisecond; got > most {
			t.Errorf("the first tenant: got the last result after %s, want at most %s", got, most)
		}
		if answered.Load() < 10 || answered.Load()+refused.Load() != 60 {
			t.Errorf("got %d answered and %d refused, want at least 10, and 60 together", answered.Load(), refused.Load())
		}
		if got := runner.queues.Callers(mine) + runner.queues.Callers(theirs); got != 0 {
			t.Errorf("got %d callers in the queues, want none", got)
		}
	})
}

func TestATestIsNotRunAfterItsContextEnded(t *testing.T) {
	withTestRunner(t, func(t *testing.T, o *oneProcess, runner *testRunner) {
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for _, tenant := range []eventhook.TenantID{mine, mine, mine, theirs, theirs} {
			callers.Go(func() {
				if _, err := runner.run(ctx, tenant, script.Program{}, nil); !isScriptResult(err) && !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want a result or context.Canceled", err)
				}
			})
		}
		synctest.Wait()
		cancel()
		callers.Wait()
		if got := o.runs.Load(); got != 1 {
			t.Errorf("got %d runs, want only the one that had started", got)
		}
	})
}

func TestTestsOfManyTenantsWaitForABoundedTime(t *testing.T) {
	withTestRunner(t, func(t *testing.T, _ *oneProcess, runner *testRunner) {
		var callers sync.WaitGroup
		var refused atomic.Int64
		for i := range 60 {
			callers.Go(func() {
				if err := runner.check(t.Context(), eventhook.TenantID{byte(i)}, script.Program{}); errors.Is(err, errTestsBusy) {
					refused.Add(1)
				}
			})
		}
		began := time.Now()
		callers.Wait()
		if got, most := time.Since(began), maxTestWait+400*time.Millisecond; got > most || refused.Load() == 0 {
			t.Errorf("got the last result after %s, %d refused; want at most %s, and at least 1 refused", got, refused.Load(), most)
		}
	})
}
