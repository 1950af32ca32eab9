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

func TestALeaseIsExtendedWhileItsHandlerRuns(t *testing.T) {
	inBubble(t, func(r *rig) {
		x := r.add(worker.Task, "send", `{}`)
		r.worker.Handle("send", func(context.Context, *worker.Job) error {
			time.Sleep(10*time.Minute - time.Second)
			return nil
		})
		r.start()
		r.done(x, "completed")
		r.stopped()
		if beats := r.asked("heartbeat"); beats != 29 { // at 20 s, 40 s … 580 s
			t.Errorf("got %d heartbeats in ten minutes, want one each third of a minute's lease", beats)
		}
		if got := r.see(x); got.Attempt != 1 {
			t.Errorf("it took %d attempts, want 1", got.Attempt)
		}
	}, worker.WithLease(time.Minute))
}

// TestALostLeaseEndsTheHandler, whose outcome is then nobody's: cancelled work
// at the next heartbeat, and any when its lease has run out.
func TestALostLeaseEndsTheHandler(t *testing.T) {
	for _, c := range []struct {
		claim string
		lose  func(*rig, *execution)
		after time.Duration
	}{
		{"when somebody cancels the work", func(r *rig, x *execution) { r.cancel(x) }, 10 * time.Second},
		{"when the gateway cannot be reached in time", func(r *rig, _ *execution) {
			r.breaks(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) })
		}, 30 * time.Second},
		{"when the gateway does not answer in time", func(r *rig, _ *execution) {
			r.breaks(func(_ http.ResponseWriter, req *http.Request) bool { <-req.Context().Done(); return true })
		}, 30 * time.Second},
	} {
		t.Run(c.claim, func(t *testing.T) {
			inBubble(t, func(r *rig) {
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
				r.stopped()
				if took != c.after || !errors.Is(cause, worker.ErrLeaseLost) {
					t.Errorf("the handler was ended after %v by %v, want %v by %v", took, cause, c.after, worker.ErrLeaseLost)
				}
				if r.asked("fail")+r.asked("complete") > 0 {
					t.Errorf("the gateway was asked %v, want no outcome", r.calls)
				}
			})
		})
	}
}

// TestAHeartbeatThatFailsIsTriedAgain soon enough to keep the lease.
func TestAHeartbeatThatFailsIsTriedAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
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
		r.breaks(func(w http.ResponseWriter, req *http.Request) bool {
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
		r.done(x, "completed")
		r.stopped()
	})
}
