package worker_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/worker"
)

// TestAStopLetsHandlersEnd for as long as it may, and then ends them; what came
// of their work is written down.
func TestAStopLetsHandlersEnd(t *testing.T) {
	for _, c := range []struct {
		claim    string
		needs    time.Duration
		returns  func(context.Context) error
		status   string
		err      string
		after    time.Duration
		hasCause bool
	}{
		{"who ends in time completes", 20 * time.Second, context.Cause, "completed", "", 20 * time.Second, false},
		{"who does not is cancelled, and tried again", time.Hour, context.Cause, "failed", worker.ErrStopped.Error(), 30 * time.Second, true},
		{"even if it believes that no retry helps", time.Hour,
			func(ctx context.Context) error { return worker.Permanent(ctx.Err()) }, "failed", worker.ErrStopped.Error(), 30 * time.Second, true},
		{"and says what it was at", time.Hour, func(ctx context.Context) error { return fmt.Errorf("print: %w", ctx.Err()) }, "failed",
			worker.ErrStopped.Error() + ": print: context canceled", 30 * time.Second, true},
		{"or what else was wrong", time.Hour, func(context.Context) error { return errBroken }, "failed", errBroken.Error(), 30 * time.Second, true},
		{"unless it was done just then", time.Hour, func(context.Context) error { return nil }, "completed", "", 30 * time.Second, true},
	} {
		t.Run(c.claim, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				x := r.add(worker.Task, "send", `{}`)
				var cause error
				r.worker.Handle("send", func(ctx context.Context, _ *worker.Job) error {
					select {
					case <-time.After(c.needs):
						return nil
					case <-ctx.Done():
						cause = context.Cause(ctx)
						return c.returns(ctx)
					}
				})
				r.start()
				synctest.Wait()
				late := r.add(worker.Task, "build", `{}`)
				began := time.Now()
				r.stopped()
				if took := time.Since(began); took != c.after {
					t.Errorf("the stop took %v, want %v", took, c.after)
				}
				if errors.Is(cause, worker.ErrStopped) != c.hasCause {
					t.Errorf("the handler's context ended by %v", cause)
				}
				r.want(x, c.status, "", c.err)
				r.want(late, "pending", "", "")
			})
		})
	}
}

func TestAStoppedWorkerClaimsNoMore(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.worker.Handle("send", nothing)
		r.start()
		synctest.Wait() // the claim waits
		began := time.Now()
		r.stopped()
		x := r.add(worker.Task, "send", `{}`)
		time.Sleep(time.Hour)
		if took := time.Since(began); took != time.Hour {
			t.Errorf("the stop took %v, want nothing", took-time.Hour)
		}
		r.want(x, "pending", "", "")
	})
}

// TestAStopEndsAPause, however long the gateway wanted to be left alone.
func TestAStopEndsAPause(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.worker.Handle("send", nothing)
		r.claimsAnswered(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "600")
			problem(w, http.StatusServiceUnavailable, "")
		})
		r.start()
		synctest.Wait()
		began := time.Now()
		r.stopped()
		if took := time.Since(began); took != 0 {
			t.Errorf("the stop took %v, want nothing", took)
		}
	})
}

func TestAWorkerMayRunAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.worker.Handle("send", nothing)
		for range 2 {
			x := r.add(worker.Task, "send", `{}`)
			r.start()
			r.done(x, "completed")
			r.stopped()
		}
	})
}

// TestAWorkersOwnConnections lead nowhere else, and end with it.
func TestAWorkersOwnConnections(t *testing.T) {
	asked, closed := make(chan string, 10), make(chan struct{}, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			closed <- struct{}{}
		}
	}
	server.Start()
	defer server.Close()
	err := worker.New(server.URL+base, key).Handle("send", nothing).Run(t.Context())
	if client.StatusOf(err) != http.StatusTemporaryRedirect || len(asked) != 1 {
		t.Errorf("Run returned %v after %d requests, want the redirect after one", err, len(asked))
	}
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Error("the connection is open though the worker has ended")
	}
}
