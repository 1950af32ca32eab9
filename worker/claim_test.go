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

// TestNoMoreIsClaimedThanCanBeDone: what is leased is worked on at once.
func TestNoMoreIsClaimedThanCanBeDone(t *testing.T) {
	inBubble(t, func(r *rig) {
		var all []*execution
		for range 25 {
			all = append(all, r.add(worker.Task, "send", `{}`))
		}
		var handlers crowd
		r.worker.Handle("send", func(_ context.Context, job *worker.Job) error {
			defer handlers.enter()()
			time.Sleep(time.Duration(len(job.ID)) * time.Minute)
			return nil
		})
		r.start()
		for _, x := range all {
			r.done(x, "completed")
		}
		r.stopped()
		if handlers.most != 3 || r.busiest != 3 {
			t.Errorf("%d handlers ran and %d leases were held at once, want 3 and 3", handlers.most, r.busiest)
		}
	}, worker.WithConcurrency(3))
}

func TestAClaimAsksForWhatTheWorkerDoes(t *testing.T) {
	inBubble(t, func(r *rig) {
		x, other := r.add(worker.Task, "send", `{}`), r.add(worker.Task, "build", `{}`)
		x.Queue, other.Queue = "billing", "billing"
		r.worker.Handle("send", nothing).Handle("draw", nothing)
		r.start()
		r.done(x, "completed")
		r.stopped()
		if got := r.see(other).Status; got != "pending" {
			t.Errorf("work of a kind without a handler is %s, want pending", got)
		}
		want := claimBody{Queue: "billing", Kinds: []string{"draw", "send"}, Max: 250, WaitSeconds: 30, LeaseSeconds: 45}
		if diff := cmp.Diff(want, r.claims[0]); diff != "" {
			t.Errorf("claim (-want +got):\n%s", diff)
		}
	}, worker.WithQueue("billing"), worker.WithLease(45*time.Second), worker.WithConcurrency(1000))
}

// TestAJobSaysWhatItIs: the input to the byte, numbers of any size.
func TestAJobSaysWhatItIs(t *testing.T) {
	inBubble(t, func(r *rig) {
		const input = `{"b":9007199254740993,"a":1e400,"b":2}`
		x := r.add(worker.Workflow, "pay", input)
		x.EventID, x.Key = new("event-1"), new("pi_1")
		var got worker.Job
		r.worker.Handle("pay", func(_ context.Context, job *worker.Job) error {
			got = *job
			return nil
		})
		r.start()
		r.done(x, "completed")
		r.stopped()
		want := []any{"1", worker.Workflow, "pay", "default", 1, "event-1", "pi_1", input}
		if diff := cmp.Diff(want, []any{got.ID, got.Type, got.Kind, got.Queue, got.Attempt, got.EventID, got.IdempotencyKey, string(got.Input)}); diff != "" {
			t.Errorf("job (-want +got):\n%s", diff)
		}
	})
}

// claimsAnswered answers each claim in turn, then none any more, and notes when
// they came.
func (r *rig) claimsAnswered(answers ...http.HandlerFunc) (at *[]time.Duration) {
	began := time.Now()
	at = &[]time.Duration{}
	r.breaks(func(w http.ResponseWriter, req *http.Request) bool {
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

func TestAGatewayInTroubleIsLeftAlone(t *testing.T) {
	status := func(code int, after string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if after != "" {
				w.Header().Set("Retry-After", after)
			}
			problem(w, code, "")
		}
	}
	breaks := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	empty := func(w http.ResponseWriter, _ *http.Request) { answer(w, map[string]any{"items": []int{}}) }
	for _, c := range []struct {
		claim       string
		answers     []http.HandlerFunc
		least, most time.Duration // of the last pause
	}{
		{"when it cannot be reached", []http.HandlerFunc{breaks}, 250 * time.Millisecond, 500 * time.Millisecond},
		{"when it fails", []http.HandlerFunc{status(500, "")}, 250 * time.Millisecond, 500 * time.Millisecond},
		{"ever longer", slices.Repeat([]http.HandlerFunc{status(502, "")}, 4), 2 * time.Second, 4 * time.Second},
		{"but not for ever", slices.Repeat([]http.HandlerFunc{breaks}, 100), 15 * time.Second, 30 * time.Second},
		{"as long as it wants", []http.HandlerFunc{status(429, "77")}, 77 * time.Second, 77 * time.Second},
		{"within reason", []http.HandlerFunc{status(503, "100000000")}, 10 * time.Minute, 10 * time.Minute},
		{"when it does not wait for work", slices.Repeat([]http.HandlerFunc{empty}, 4), 2 * time.Second, 4 * time.Second},
		{"when it answers nonsense", []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }},
			250 * time.Millisecond, 500 * time.Millisecond},
	} {
		t.Run(c.claim, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				x := r.add(worker.Task, "send", `{}`)
				r.worker.Handle("send", nothing)
				at := r.claimsAnswered(c.answers...)
				r.start()
				r.done(x, "completed")
				r.stopped()
				n := len(c.answers)
				if got := (*at)[n] - (*at)[n-1]; got < c.least || got > c.most {
					t.Errorf("it was asked again after %v, want %v to %v", got, c.least, c.most)
				}
			})
		})
	}
}

func TestARefusalEndsTheWorker(t *testing.T) {
	for _, c := range []struct {
		status int
		want   string
	}{
		{401, "claim work: the gateway does not take the key: 401 Unauthorized: why"},
		{403, "claim work: the key lacks the scope work: 403 Forbidden: why"},
		{404, "claim work: there is no such tenant for this key: 404 Not Found: why"},
		{422, "claim work: the gateway refuses it: 422 Unprocessable Entity: why"},
		{302, "claim work: the gateway refuses it: 302 Found: why"},
	} {
		t.Run(http.StatusText(c.status), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.worker.Handle("send", nothing)
				at := r.claimsAnswered(func(w http.ResponseWriter, _ *http.Request) { problem(w, c.status, "why") })
				r.start()
				err := <-r.ended
				if err == nil || err.Error() != c.want || client.StatusOf(err) != c.status || len(*at) != 1 {
					t.Errorf("after %d claims Run returned %v, want %s after one", len(*at), err, c.want)
				}
			})
		})
	}
}

// TestAKeyThatEndsLetsHandlersEnd: the work that runs is not thrown away.
func TestAKeyThatEndsLetsHandlersEnd(t *testing.T) {
	inBubble(t, func(r *rig) {
		x := r.add(worker.Task, "send", `{}`)
		r.worker.Handle("send", func(context.Context, *worker.Job) error {
			time.Sleep(20 * time.Second)
			return nil
		})
		r.start()
		synctest.Wait()
		r.claimsAnswered(func(w http.ResponseWriter, _ *http.Request) { problem(w, 401, "") })
		r.add(worker.Task, "send", `{}`) // ends the claim that waits
		if err := <-r.ended; client.StatusOf(err) != 401 {
			t.Errorf("Run returned %v, want a 401", err)
		}
		r.want(x, "completed", "", "")
	})
}
