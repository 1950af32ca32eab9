package worker_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/worker"
)

type progress struct{ Step string }

// pay returns a handler that waits for a payment. Its output has the state and the payment.
func pay(timeout time.Duration) worker.Handler {
	return func(ctx context.Context, job *worker.Job) error {
		var at progress
		if err := job.ReadState(&at); err != nil {
			return err
		}
		paid, err := job.MakePromise(ctx, "pi_1", 0)
		if err != nil {
			return err
		}
		var amount int
		if at.Step == "" {
			return job.SuspendFor(timeout, progress{Step: "paying"}, paid)
		}
		if err := paid.Read(&amount); err != nil {
			return worker.Permanent(err)
		}
		job.Output = fmt.Sprint(at.Step, " ", job.Promises[0].IdempotencyKey, " ", amount, " attempt ", job.Attempt)
		return nil
	}
}

func TestSuspendedWorkflowIsResumed(t *testing.T) {
	for _, c := range []struct {
		claim       string
		status      string
		value       string
		ends        string
		output, err string
	}{
		{"promise resolved", worker.Resolved, `4200`, "completed", `"paying pi_1 4200 attempt 1"`, ""},
		{"promise rejected", worker.Rejected, `card declined`, "dead", "", "the promise pi_1 was rejected: card declined"},
		{"promise expired", worker.Expired, ``, "dead", "", "the promise pi_1 is expired"},
		{"value of another type", worker.Resolved, `"much"`, "dead", "",
			"the value of the promise pi_1 cannot be read: json: cannot unmarshal string into Go value of type int"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			runTest(t, func(r *harness) {
				x := r.add(worker.Workflow, "pay", `{}`)
				r.worker.Handle("pay", pay(0))
				r.start()
				r.waitFor(x, "suspended")
				if got := *r.promises[0]; *got.Workflow != x.ID || string(r.current(x).State) != `{"Step":"paying"}` {
					t.Errorf("suspended with the state %s and a promise of workflow %s", r.current(x).State, *got.Workflow)
				}
				r.settle("pi_1", c.status, c.value)
				r.waitFor(x, c.ends)
				r.stopAndWait()
				r.want(x, c.ends, c.output, c.err)
			})
		})
	}
}

func TestSuspendForHasATimeout(t *testing.T) {
	runTest(t, func(r *harness) {
		x := r.add(worker.Workflow, "pay", `{}`)
		r.worker.Handle("pay", pay(89*time.Second+time.Millisecond)) // rounded up to seconds
		began := time.Now()
		r.start()
		r.waitFor(x, "dead")
		r.stopAndWait()
		r.want(x, "dead", "", "the promise pi_1 is pending")
		if took := time.Since(began); took != 90*time.Second {
			t.Errorf("resumed after %v, want 90s", took)
		}
	})
}

func TestStateOfAnotherType(t *testing.T) {
	runTest(t, func(r *harness) {
		x := r.add(worker.Workflow, "pay", `{}`)
		x.State = []byte(`[]`)
		r.worker.Handle("pay", pay(0))
		r.start()
		r.waitFor(x, "dead")
		r.stopAndWait()
		r.want(x, "dead", "", "the state cannot be read: json: cannot unmarshal array into Go value of type worker_test.progress")
	})
}

func TestMakePromiseReturnsTheErrorOfTheGateway(t *testing.T) {
	runTest(t, func(r *harness) {
		x := r.add(worker.Workflow, "pay", `{}`)
		r.setFault(func(w http.ResponseWriter, req *http.Request) bool {
			if !strings.HasSuffix(req.URL.Path, "/promises") {
				return false
			}
			problem(w, http.StatusInternalServerError, "")
			return true
		})
		r.worker.Handle("pay", pay(0))
		r.start()
		r.waitFor(x, "failed")
		r.stopAndWait()
		r.want(x, "failed", "", "create the promise pi_1: 500 Internal Server Error")
	})
}
