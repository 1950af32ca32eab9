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

// Run waits for running handlers, cancels them after the drain time and reports their outcomes.
func TestRunDrainsHandlers(t *testing.T) {
	for _, c := range []struct {
		claim    string
		needs    time.Duration
		returns  func(context.Context) error
		status   string
		err      string
		after    time.Duration
		hasCause bool
	}{
		{"handler ends within the drain time", 20 * time.Second, context.Cause, "completed", "", 20 * time.Second, false},
		{"handler is cancelled after the drain time", time.Hour, context.Cause, "failed", worker.ErrStopped.Error(), 30 * time.Second, true},
		{"cancelled handler returns a permanent error", time.Hour,
			func(ctx context.Context) error { return worker.Permanent(ctx.Err()) }, "failed", worker.ErrStopped.Error(), 30 * time.Second, true},
		{"cancelled handler returns a wrapped context error", time.Hour, func(ctx context.Context) error { return fmt.Errorf("print: %w", ctx.Err()) }, "failed",
			worker.ErrStopped.Error() + ": print: context canceled", 30 * time.Second, true},
		{"cancelled handler returns another error", time.Hour, func(context.Context) error { return errPrinter }, "failed", errPrinter.Error(), 30 * time.Second, true},
		{"cancelled handler returns nil", time.Hour, func(context.Context) error { return nil }, "completed", "", 30 * time.Second, true},
	} {
		t.Run(c.claim, func(t *testing.T) {
			runTest(t, func(r *harness) {
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
				r.stopAndWait()
				if took := time.Since(began); took != c.after {
					t.Errorf("shutdown took %v, want %v", took, c.after)
				}
				if errors.Is(cause, worker.ErrStopped) != c.hasCause {
					t.Errorf("the handler's context has the cause %v, want ErrStopped: %t", cause, c.hasCause)
				}
				r.want(x, c.status, "", c.err)
				r.want(late, "pending", "", "")
			})
		})
	}
}

func TestStoppedWorkerDoesNotClaim(t *testing.T) {
	runTest(t, func(r *harness) {
		r.worker.Handle("send", noop)
		r.start()
		synctest.Wait() // the claim waits
		began := time.Now()
		r.stopAndWait()
		x := r.add(worker.Task, "send", `{}`)
		time.Sleep(time.Hour)
		if took := time.Since(began); took != time.Hour {
			t.Errorf("shutdown took %v, want 0", took-time.Hour)
		}
		r.want(x, "pending", "", "")
	})
}

// Run does not wait for the rest of a Retry-After.
func TestStopInterruptsABackoff(t *testing.T) {
	runTest(t, func(r *harness) {
		r.worker.Handle("send", noop)
		r.answerClaims(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "600")
			problem(w, http.StatusServiceUnavailable, "")
		})
		r.start()
		synctest.Wait()
		began := time.Now()
		r.stopAndWait()
		if took := time.Since(began); took != 0 {
			t.Errorf("shutdown took %v, want 0", took)
		}
	})
}

func TestRunMayBeCalledAgain(t *testing.T) {
	runTest(t, func(r *harness) {
		r.worker.Handle("send", noop)
		for range 2 {
			x := r.add(worker.Task, "send", `{}`)
			r.start()
			r.waitFor(x, "completed")
			r.stopAndWait()
		}
	})
}

// The client that New creates follows no redirect, and Run closes its connections.
func TestDefaultHTTPClient(t *testing.T) {
	paths, closed := make(chan string, 10), make(chan struct{}, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths <- r.URL.Path
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			closed <- struct{}{}
		}
	}
	server.Start()
	defer server.Close()
	err := worker.New(server.URL+base, key).Handle("send", noop).Run(t.Context())
	if client.StatusOf(err) != http.StatusTemporaryRedirect || len(paths) != 1 {
		t.Errorf("Run returned %v after %d requests, want the redirect after one", err, len(paths))
	}
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Error("the connection is open after Run returned")
	}
}
