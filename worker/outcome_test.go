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

func TestOutcomeIsReported(t *testing.T) {
	typed := func(handle func(*worker.Job, invoice) error) worker.Handler {
		return worker.Typed(func(_ context.Context, job *worker.Job, in invoice) error { return handle(job, in) })
	}
	simple := func(handle func(*worker.Job) error) worker.Handler {
		return func(_ context.Context, job *worker.Job) error { return handle(job) }
	}
	const input = `{"id":"in_1","amount":7}`
	for _, c := range []struct {
		claim            string
		typ, input       string
		handler          worker.Handler
		status, out, err string
	}{
		{"nil completes the job", worker.Task, input, simple(func(*worker.Job) error { return nil }), "completed", "", ""},
		{"output is stored", worker.Task, input, simple(func(j *worker.Job) error { j.Output = map[string]any{"sent": true}; return nil }), "completed", `{"sent":true}`, ""},
		{"input is decoded", worker.Task, input, typed(func(j *worker.Job, in invoice) error { j.Output = in.Amount; return nil }), "completed", "7", ""},
		{"error", worker.Task, input, simple(func(*worker.Job) error { return errPrinter }), "failed", "", errPrinter.Error()},
		{"permanent error", worker.Task, input, simple(func(*worker.Job) error { return worker.Permanent(errPrinter) }), "dead", "", errPrinter.Error()},
		{"Permanent(nil) is nil", worker.Task, input, simple(func(*worker.Job) error { return worker.Permanent(nil) }), "completed", "", ""},
		{"input of another type", worker.Task, `{"amount":"7"}`, typed(func(*worker.Job, invoice) error { return nil }), "dead", "",
			"the input cannot be read: json: cannot unmarshal string into Go struct field invoice.Amount of type int"},
		{"panic value is not reported", worker.Task, input, simple(func(*worker.Job) error { panic("s3cr3t") }), "failed", "", "the handler panicked"},
		{"output panics", worker.Task, input, simple(func(j *worker.Job) error { j.Output = panickingError{}; return nil }), "failed", "", "the handler panicked"},
		{"error panics", worker.Task, input, simple(func(*worker.Job) error { return (*panickingError)(nil) }), "failed", "", "the handler panicked"},
		{"runtime.Goexit", worker.Task, input, simple(func(*worker.Job) error { runtime.Goexit(); return nil }), "failed", "",
			"the handler ended without an outcome"},
		{"output cannot be encoded", worker.Task, input, simple(func(j *worker.Job) error { j.Output = func() {}; return nil }), "dead", "",
			"the output cannot be written: json: unsupported type: func()"},
		{"task cannot be suspended", worker.Task, input, simple(func(j *worker.Job) error { return j.Suspend(nil, worker.Promise{ID: "1"}) }), "dead", "",
			"only a workflow can be suspended; this is a task"},
		{"Suspend without promises", worker.Workflow, input, simple(func(j *worker.Job) error { return j.Suspend(nil) }), "dead", "",
			"a workflow that awaits no promise cannot be suspended"},
		{"long error is cut at a rune", worker.Task, input, simple(func(*worker.Job) error { return worker.Permanent(longError{}) }), "dead", "",
			"!" + strings.Repeat("é", 4999)},
	} {
		t.Run(c.claim, func(t *testing.T) {
			runTest(t, func(r *harness) {
				x := r.add(c.typ, "send", c.input)
				r.worker.Handle("send", c.handler)
				r.start()
				r.waitFor(x, c.status)
				r.stopAndWait()
				r.want(x, c.status, c.out, c.err)
			})
		})
	}
}

// panickingError panics in its methods.
type panickingError struct{ text string }

func (l *panickingError) Error() string             { return l.text }
func (panickingError) MarshalJSON() ([]byte, error) { panic("s3cr3t") }

type longError struct{}

func (longError) Error() string { return "!" + strings.Repeat("é", 9000) }

func TestPanicIsLoggedWithItsStack(t *testing.T) {
	runTest(t, func(r *harness) {
		x := r.add(worker.Task, "send", `{}`)
		r.worker.Handle("send", func(context.Context, *worker.Job) error { return panicWithBoom() })
		r.start()
		r.waitFor(x, "failed")
		r.stopAndWait()
		for _, want := range []string{"panic=boom", "worker_test.panicWithBoom", "job=1", "kind=send", "attempt=1"} {
			if !strings.Contains(r.log.String(), want) {
				t.Errorf("the log is\n%s\nwant %q in it", &r.log, want)
			}
		}
	})
}

func panicWithBoom() error { panic("boom") }

func TestFailedJobIsRetried(t *testing.T) {
	runTest(t, func(r *harness) {
		x := r.add(worker.Task, "send", `{}`)
		r.worker.Handle("send", func(_ context.Context, job *worker.Job) error {
			if job.Attempt == 1 {
				return errPrinter
			}
			return nil
		})
		r.start()
		r.waitFor(x, "completed")
		r.stopAndWait()
		if got := r.current(x); got.Attempt != 2 {
			t.Errorf("got %d attempts, want 2", got.Attempt)
		}
	})
}

// Temporary errors are retried until the lease ends. Other errors are not retried.
func TestReportingIsRetriedUntilTheLeaseEnds(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { problem(w, code, "") }
	}
	aborts := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for _, c := range []struct {
		claim  string
		times  int // number of calls of complete that get this answer
		answer http.HandlerFunc
		status string
		err    string
		log    string
	}{
		{"gateway fails", 3, status(503), "completed", "", ""},
		{"gateway unreachable", 3, aborts, "completed", "", ""},
		{"gateway unreachable until the lease ends", 1000, aborts, "running", "", "the outcome could not be reported"},
		{"rejected outcome fails the job permanently", 1, status(413), "dead",
			"the gateway rejected the outcome: 413 Request Entity Too Large", ""},
		{"lost lease", 1, status(409), "running", "", "the lease was lost"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			runTest(t, func(r *harness) {
				x := r.add(worker.Task, "send", `{}`)
				r.worker.Handle("send", func(context.Context, *worker.Job) error { r.stop(); return nil })
				remaining := c.times
				r.setFault(func(w http.ResponseWriter, req *http.Request) bool {
					if !strings.HasSuffix(req.URL.Path, "/complete") || remaining == 0 {
						return false
					}
					remaining--
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
					t.Errorf("Run took %v, want at most a lease of 30s", took)
				}
			})
		})
	}
}
