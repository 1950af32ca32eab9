package worker_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/worker"
)

func TestOnlyJobsThatCanRunNowAreClaimed(t *testing.T) {
	runTest(t, func(r *harness) {
		var all []*execution
		for range 25 {
			all = append(all, r.add(worker.Task, "send", `{}`))
		}
		var handlers concurrencyCounter
		r.worker.Handle("send", func(_ context.Context, job *worker.Job) error {
			defer handlers.start()()
			time.Sleep(time.Duration(len(job.ID)) * time.Minute)
			return nil
		})
		r.start()
		for _, x := range all {
			r.waitFor(x, "completed")
		}
		r.stopAndWait()
		if handlers.max != 3 || r.maxLeased != 3 {
			t.Errorf("%d handlers ran and %d executions were leased at the same time, want 3 and 3", handlers.max, r.maxLeased)
		}
	}, worker.WithConcurrency(3))
}

func TestClaimHasTheQueueAndKindsOfTheWorker(t *testing.T) {
	runTest(t, func(r *harness) {
		x, other := r.add(worker.Task, "send", `{}`), r.add(worker.Task, "build", `{}`)
		x.Queue, other.Queue = "billing", "billing"
		r.worker.Handle("send", noop).Handle("draw", noop)
		r.start()
		r.waitFor(x, "completed")
		r.stopAndWait()
		if got := r.current(other).Status; got != "pending" {
			t.Errorf("execution of a kind without a handler: got %s, want pending", got)
		}
		want := claimBody{Queue: "billing", Kinds: []string{"draw", "send"}, Max: 250, WaitSeconds: 30, LeaseSeconds: 45}
		if diff := cmp.Diff(want, r.claims[0]); diff != "" {
			t.Errorf("claim (-want +got):\n%s", diff)
		}
	}, worker.WithQueue("billing"), worker.WithLease(45*time.Second), worker.WithConcurrency(1000))
}

// The input is unchanged, so that no digit of a number is lost.
func TestJobHasTheFieldsOfTheExecution(t *testing.T) {
	runTest(t, func(r *harness) {
		const input = `{"b":9007199254740993,"a":1e400,"b":2}`
		x := r.add(worker.Workflow, "pay", input)
		x.EventID, x.Key, x.Priority, x.TraceID = new("event-1"), new("pi_1"), -3, "4bf92f3577b34da6a3ce929d0e0e4736"
		var got worker.Job
		r.worker.Handle("pay", func(_ context.Context, job *worker.Job) error {
			got = *job
			return nil
		})
		r.start()
		r.waitFor(x, "completed")
		r.stopAndWait()
		want := []any{"1", worker.Workflow, "pay", "default", 1, "event-1", "pi_1", input, -3, "4bf92f3577b34da6a3ce929d0e0e4736"}
		if diff := cmp.Diff(want, []any{got.ID, got.Type, got.Kind, got.Queue, got.Attempt, got.EventID, got.IdempotencyKey, string(got.Input), got.Priority, got.TraceID}); diff != "" {
			t.Errorf("job (-want +got):\n%s", diff)
		}
	})
}

// answerClaims answers the first claims with answers and leaves later claims to the gateway. It
// records the times of all claims.
func (r *harness) answerClaims(answers ...http.HandlerFunc) (at *[]time.Duration) {
	began := time.Now()
	at = &[]time.Duration{}
	r.setFault(func(w http.ResponseWriter, req *http.Request) bool {
		if !strings.HasSuffix(req.URL.Path, "/claim") {
			return false
		}
		*at = append(*at, time.Since(began))
		if len(*at) > len(answers) {
			return false
		}
		answers[len(*at)-1](w, req)
		return true
	})
	return at
}

func TestClaimsBackOff(t *testing.T) {
	status := func(code int, after string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if after != "" {
				w.Header().Set("Retry-After", after)
			}
			problem(w, code, "")
		}
	}
	aborts := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	noWork := func(w http.ResponseWriter, _ *http.Request) { answer(w, map[string]any{"items": []int{}}) }
	for _, c := range []struct {
		claim    string
		answers  []http.HandlerFunc
		min, max time.Duration // of the delay before the last claim
	}{
		{"gateway unreachable", []http.HandlerFunc{aborts}, 250 * time.Millisecond, 500 * time.Millisecond},
		{"gateway fails", []http.HandlerFunc{status(500, "")}, 250 * time.Millisecond, 500 * time.Millisecond},
		{"delay doubles", slices.Repeat([]http.HandlerFunc{status(502, "")}, 4), 2 * time.Second, 4 * time.Second},
		{"delay is limited", slices.Repeat([]http.HandlerFunc{aborts}, 100), 15 * time.Second, 30 * time.Second},
		{"Retry-After", []http.HandlerFunc{status(429, "77")}, 77 * time.Second, 77 * time.Second},
		{"Retry-After is limited", []http.HandlerFunc{status(503, "100000000")}, 10 * time.Minute, 10 * time.Minute},
		{"gateway answers without waiting for work", slices.Repeat([]http.HandlerFunc{noWork}, 4), 2 * time.Second, 4 * time.Second},
		{"answer is not JSON", []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }},
			250 * time.Millisecond, 500 * time.Millisecond},
	} {
		t.Run(c.claim, func(t *testing.T) {
			runTest(t, func(r *harness) {
				x := r.add(worker.Task, "send", `{}`)
				r.worker.Handle("send", noop)
				at := r.answerClaims(c.answers...)
				r.start()
				r.waitFor(x, "completed")
				r.stopAndWait()
				n := len(c.answers)
				if got := (*at)[n] - (*at)[n-1]; got < c.min || got > c.max {
					t.Errorf("next claim after %v, want %v to %v", got, c.min, c.max)
				}
			})
		})
	}
}

func TestRunReturnsAPermanentRejection(t *testing.T) {
	for _, c := range []struct {
		status int
		want   string
	}{
		{401, "claim work: the key is not valid: 401 Unauthorized: why"},
		{403, "claim work: the key lacks the scope work: 403 Forbidden: why"},
		{404, "claim work: the key has no access to the tenant, or the tenant does not exist: 404 Not Found: why"},
		{422, "claim work: the gateway rejected the request: 422 Unprocessable Entity: why"},
		{302, "claim work: the gateway rejected the request: 302 Found: why"},
	} {
		t.Run(http.StatusText(c.status), func(t *testing.T) {
			runTest(t, func(r *harness) {
				r.worker.Handle("send", noop)
				at := r.answerClaims(func(w http.ResponseWriter, _ *http.Request) { problem(w, c.status, "why") })
				r.start()
				err := <-r.ended
				if err == nil || err.Error() != c.want || client.StatusOf(err) != c.status || len(*at) != 1 {
					t.Errorf("Run returned %[2]v after %[1]d claims, want %[3]s after one", len(*at), err, c.want)
				}
			})
		})
	}
}

func TestRunningHandlersEndAfterAPermanentRejection(t *testing.T) {
	runTest(t, func(r *harness) {
		x := r.add(worker.Task, "send", `{}`)
		r.worker.Handle("send", func(context.Context, *worker.Job) error {
			time.Sleep(20 * time.Second)
			return nil
		})
		r.start()
		synctest.Wait()
		r.answerClaims(func(w http.ResponseWriter, _ *http.Request) { problem(w, 401, "") })
		r.add(worker.Task, "send", `{}`) // the waiting claim returns
		if err := <-r.ended; client.StatusOf(err) != 401 {
			t.Errorf("Run returned %v, want a 401", err)
		}
		r.want(x, "completed", "", "")
	})
}
