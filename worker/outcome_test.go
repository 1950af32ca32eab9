package worker_test

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/worker"
)

type invoice struct {
	ID     string
	Amount int
}

func TestTheGatewayIsToldWhatCameOfTheWork(t *testing.T) {
	typed := func(handle func(*worker.Job, invoice) error) worker.Handler {
		return worker.Typed(func(_ context.Context, job *worker.Job, in invoice) error { return handle(job, in) })
	}
	does := func(handle func(*worker.Job) error) worker.Handler {
		return func(_ context.Context, job *worker.Job) error { return handle(job) }
	}
	const input = `{"id":"in_1","amount":7}`
	for _, c := range []struct {
		claim           string
		typ, input      string
		handler         worker.Handler
		status, out, of string
	}{
		{"nil completes it", worker.Task, input, does(func(*worker.Job) error { return nil }), "completed", "", ""},
		{"with the output", worker.Task, input, does(func(j *worker.Job) error { j.Output = map[string]any{"sent": true}; return nil }), "completed", `{"sent":true}`, ""},
		{"the input is a Go value", worker.Task, input, typed(func(j *worker.Job, in invoice) error { j.Output = in.Amount; return nil }), "completed", "7", ""},
		{"an error fails it", worker.Task, input, does(func(*worker.Job) error { return errBroken }), "failed", "", errBroken.Error()},
		{"a permanent one for good", worker.Task, input, does(func(*worker.Job) error { return worker.Permanent(errBroken) }), "dead", "", errBroken.Error()},
		{"no error is none, permanent or not", worker.Task, input, does(func(*worker.Job) error { return worker.Permanent(nil) }), "completed", "", ""},
		{"an input of another shape fails it for good", worker.Task, `{"amount":"7"}`, typed(func(*worker.Job, invoice) error { return nil }), "dead", "",
			"the input cannot be read: json: cannot unmarshal string into Go struct field invoice.Amount of type int"},
		{"a panic says nothing of itself", worker.Task, input, does(func(*worker.Job) error { panic("s3cr3t") }), "failed", "", "the handler panicked"},
		{"nor does one that comes of its output", worker.Task, input, does(func(j *worker.Job) error { j.Output = landmine{}; return nil }), "failed", "", "the handler panicked"},
		{"or of its error", worker.Task, input, does(func(*worker.Job) error { return (*landmine)(nil) }), "failed", "", "the handler panicked"},
		{"a handler that ends its goroutine has failed", worker.Task, input, does(func(*worker.Job) error { runtime.Goexit(); return nil }), "failed", "",
			"the handler ended without an outcome"},
		{"an output that is no JSON fails it for good", worker.Task, input, does(func(j *worker.Job) error { j.Output = func() {}; return nil }), "dead", "",
			"the output cannot be written: json: unsupported type: func()"},
		{"a task cannot be suspended", worker.Task, input, does(func(j *worker.Job) error { return j.Suspend(nil, worker.Promise{ID: "1"}) }), "dead", "",
			"only a workflow can be suspended; this is a task"},
		{"nor a workflow that awaits nothing", worker.Workflow, input, does(func(j *worker.Job) error { return j.Suspend(nil) }), "dead", "",
			"a workflow that awaits no promise cannot be suspended"},
		{"an endless error is cut at a rune", worker.Task, input, does(func(*worker.Job) error { return worker.Permanent(longError{}) }), "dead", "",
			"!" + strings.Repeat("é", 4999)},
	} {
		t.Run(c.claim, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				x := r.add(c.typ, "send", c.input)
				r.worker.Handle("send", c.handler)
				r.start()
				r.done(x, c.status)
				r.stopped()
				r.want(x, c.status, c.out, c.of)
			})
		})
	}
}

// landmine panics when it is looked at.
type landmine struct{ text string }

func (l *landmine) Error() string             { return l.text }
func (landmine) MarshalJSON() ([]byte, error) { panic("s3cr3t") }

type longError struct{}

func (longError) Error() string { return "!" + strings.Repeat("é", 9000) }

func TestAPanicIsInTheLogWithItsStack(t *testing.T) {
	inBubble(t, func(r *rig) {
		x := r.add(worker.Task, "send", `{}`)
		r.worker.Handle("send", func(context.Context, *worker.Job) error { return explode() })
		r.start()
		r.done(x, "failed")
		r.stopped()
		for _, want := range []string{"panic=boom", "worker_test.explode", "job=1", "kind=send", "attempt=1"} {
			if !strings.Contains(r.log.String(), want) {
				t.Errorf("the log is\n%s\nwant %q in it", &r.log, want)
			}
		}
	})
}

func explode() error { panic("boom") }

func TestAFailureIsTriedAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
		x := r.add(worker.Task, "send", `{}`)
		r.worker.Handle("send", func(_ context.Context, job *worker.Job) error {
			if job.Attempt == 1 {
				return errBroken
			}
			return nil
		})
		r.start()
		r.done(x, "completed")
		r.stopped()
		if got := r.see(x); got.Attempt != 2 {
			t.Errorf("it took %d attempts, want 2", got.Attempt)
		}
	})
}

// TestAnOutcomeIsToldUntilItIsKnown: answers that pass are borne within the
// lease, others are not asked for again.
func TestAnOutcomeIsToldUntilItIsKnown(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { problem(w, code, "") }
	}
	breaks := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for _, c := range []struct {
		claim  string
		times  int // complete is answered so
		answer http.HandlerFunc
		status string
		err    string
		log    string
	}{
		{"a gateway that fails is told again", 3, status(503), "completed", "", ""},
		{"one that cannot be reached, too", 3, breaks, "completed", "", ""},
		{"but not beyond the lease", 1000, breaks, "running", "", "the outcome could not be told"},
		{"what it cannot take fails for good, and says why", 1, status(413), "dead",
			"the outcome was refused: 413 Request Entity Too Large", ""},
		{"a lost lease is no error", 1, status(409), "running", "", "the lease was lost"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				x := r.add(worker.Task, "send", `{}`)
				r.worker.Handle("send", func(context.Context, *worker.Job) error { r.stop(); return nil })
				left := c.times
				r.breaks(func(w http.ResponseWriter, req *http.Request) bool {
					if !strings.HasSuffix(req.URL.Path, "/complete") || left == 0 {
						return false
					}
					left--
					c.answer(w, req)
					return true
				})
				began := time.Now()
				r.start()
				if err := <-r.ended; err != nil {
					t.Errorf("Run returned %v, want nil", err)
				}
				r.want(x, c.status, "", c.err)
				if !strings.Contains(r.log.String(), c.log) || strings.Contains(r.log.String(), "ERROR") != strings.Contains(c.log, "could not") {
					t.Errorf("the log is\n%s\nwant %q", &r.log, c.log)
				}
				if took := time.Since(began); took > 31*time.Second {
					t.Errorf("it took %v, want a lease of 30s at most", took)
				}
			})
		})
	}
}
