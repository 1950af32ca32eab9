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

// pay awaits a payment in two steps, and tells what it saw in each.
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

func TestAWorkflowAwaitsPromises(t *testing.T) {
	for _, c := range []struct {
		claim       string
		status      string
		value       string
		ends        string
		output, err string
	}{
		{"and goes on with their values", worker.Resolved, `4200`, "completed", `"paying pi_1 4200 attempt 1"`, ""},
		{"or what rejected them", worker.Rejected, `card declined`, "dead", "", "the promise pi_1 was rejected: card declined"},
		{"or that they expired", worker.Expired, ``, "dead", "", "the promise pi_1 is expired"},
		{"or with values of another shape", worker.Resolved, `"much"`, "dead", "",
			"the value of the promise pi_1 cannot be read: json: cannot unmarshal string into Go value of type int"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				x := r.add(worker.Workflow, "pay", `{}`)
				r.worker.Handle("pay", pay(0))
				r.start()
				r.done(x, "suspended")
				if got := *r.promises[0]; *got.Workflow != x.ID || string(r.see(x).State) != `{"Step":"paying"}` {
					t.Errorf("suspended with the state %s and a promise of workflow %s", r.see(x).State, *got.Workflow)
				}
				r.settle("pi_1", c.status, c.value)
				r.done(x, c.ends)
				r.stopped()
				r.want(x, c.ends, c.output, c.err)
			})
		})
	}
}

func TestAWorkflowDoesNotWaitForEver(t *testing.T) {
	inBubble(t, func(r *rig) {
		x := r.add(worker.Workflow, "pay", `{}`)
		r.worker.Handle("pay", pay(89*time.Second+time.Millisecond)) // in whole seconds
		began := time.Now()
		r.start()
		r.done(x, "dead")
		r.stopped()
		r.want(x, "dead", "", "the promise pi_1 is pending")
		if took := time.Since(began); took != 90*time.Second {
			t.Errorf("it went on after %v, want 90s", took)
		}
	})
}

func TestAStateOfAnotherShapeIsSaid(t *testing.T) {
	inBubble(t, func(r *rig) {
		x := r.add(worker.Workflow, "pay", `{}`)
		x.State = []byte(`[]`)
		r.worker.Handle("pay", pay(0))
		r.start()
		r.done(x, "dead")
		r.stopped()
		r.want(x, "dead", "", "the state cannot be read: json: cannot unmarshal array into Go value of type worker_test.progress")
	})
}

func TestAPromiseThatCannotBeMadeIsAnError(t *testing.T) {
	inBubble(t, func(r *rig) {
		x := r.add(worker.Workflow, "pay", `{}`)
		r.breaks(func(w http.ResponseWriter, req *http.Request) bool {
			if !strings.HasSuffix(req.URL.Path, "/promises") {
				return false
			}
			problem(w, http.StatusInternalServerError, "")
			return true
		})
		r.worker.Handle("pay", pay(0))
		r.start()
		r.done(x, "failed")
		r.stopped()
		r.want(x, "failed", "", "make the promise pi_1: 500 Internal Server Error")
	})
}
