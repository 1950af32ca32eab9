package worker_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook/worker"
)

func TestLeaseIsExtendedWhileItsHandlerRuns(t *testing.T) {
	runTest(t, func(r *harness) {
		x := r.add(worker.Task, "send", `{}`)
		r.worker.Handle("send", func(context.Context, *worker.Job) error {
			time.Sleep(10*time.Minute - time.Second)
			return nil
		})
		r.start()
		r.waitFor(x, "completed")
		r.stopAndWait()
		if beats := r.countCalls("heartbeat"); beats != 29 { // at 20 s, 40 s … 580 s
			t.Errorf("got %d heartbeats in ten minutes, want 29: one after each third of a lease of a minute", beats)
		}
		if got := r.current(x); got.Attempt != 1 {
			t.Errorf("got %d attempts, want 1", got.Attempt)
		}
	}, worker.WithLease(time.Minute))
}

// The handler of a cancelled execution ends at the next heartbeat, other handlers when the lease
// ends. No outcome is reported.
func TestLostLeaseCancelsTheHandler(t *testing.T) {
	for _, c := range []struct {
		claim string
		lose  func(*harness, *execution)
		after time.Duration
	}{
		{"execution cancelled", func(r *harness, x *execution) { r.cancel(x) }, 10 * time.Second},
		{"gateway unreachable", func(r *harness, _ *execution) {
			r.setFault(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) })
		}, 30 * time.Second},
		{"gateway does not answer", func(r *harness, _ *execution) {
			r.setFault(func(_ http.ResponseWriter, req *http.Request) bool { <-req.Context().Done(); return true })
		}, 30 * time.Second},
	} {
		t.Run(c.claim, func(t *testing.T) {
			runTest(t, func(r *harness) {
				x := r.add(worker.Task, "send", `{}`)
				var took time.Duration
				var cause error
				r.worker.Handle("send", func(ctx context.Context, _ *worker.Job) error {
					began := time.Now()
					<-ctx.Done()
					took, cause = time.Since(began), context.Cause(ctx)
					return ctx.Err()
				})
				r.start()
				synctest.Wait()
				c.lose(r, x)
				time.Sleep(time.Minute)
				r.stopAndWait()
				if took != c.after || !errors.Is(cause, worker.ErrLeaseLost) {
					t.Errorf("the handler was cancelled after %v with the cause %v, want %v and %v", took, cause, c.after, worker.ErrLeaseLost)
				}
				if r.countCalls("fail")+r.countCalls("complete") > 0 {
					t.Errorf("the gateway got the calls %v, want no outcome", r.calls)
				}
			})
		})
	}
}

func TestFailedHeartbeatIsRetriedBeforeTheLeaseEnds(t *testing.T) {
	runTest(t, func(r *harness) {
		x := r.add(worker.Task, "send", `{}`)
		r.worker.Handle("send", func(ctx context.Context, _ *worker.Job) error {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(5 * time.Minute):
				return nil
			}
		})
		failures := 0
		r.setFault(func(w http.ResponseWriter, req *http.Request) bool {
			if !strings.HasSuffix(req.URL.Path, "/heartbeat") {
				return false
			}
			if failures++; failures%6 == 0 {
				return false
			}
			problem(w, http.StatusServiceUnavailable, "")
			return true
		})
		r.start()
		r.waitFor(x, "completed")
		r.stopAndWait()
	})
}
