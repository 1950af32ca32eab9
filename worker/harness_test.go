package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/eventhook/eventhook/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	tenantURL = "https://hooks.example.com" + base
	key       = "ehk_acme"
)

// harness is a worker and a fake gateway in a synctest bubble.
type harness struct {
	*gateway
	t      *testing.T
	worker *worker.Worker
	log    strings.Builder
	stop   context.CancelFunc
	ended  chan error
}

// runTest runs a test in a synctest bubble with a worker that has not been started.
func runTest(t *testing.T, test func(*harness), options ...worker.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &harness{gateway: newGateway(), t: t, ended: make(chan error, 1)}
		log := slog.New(slog.NewTextHandler(&r.log, nil))
		options = append([]worker.Option{worker.WithHTTPClient(r.client()), worker.WithLogger(log)}, options...)
		r.worker = worker.New(tenantURL, key, options...)
		test(r)
	})
}

// start starts the worker. It is stopped when the test ends.
func (r *harness) start() {
	ctx, stop := context.WithCancel(r.t.Context())
	r.stop = stop
	go func() { r.ended <- r.worker.Run(ctx) }()
	r.t.Cleanup(stop)
}

// stopAndWait stops the worker, waits until Run returns and fails the test if Run returned an error.
func (r *harness) stopAndWait() {
	r.t.Helper()
	r.stop()
	if err := <-r.ended; err != nil {
		r.t.Errorf("Run returned %v, want nil", err)
	}
}

// want fails the test if the execution does not have this status, output and error.
func (r *harness) want(x *execution, status, output, err string) {
	r.t.Helper()
	got := r.current(x)
	if got.Status != status || string(got.Output) != output || got.Error != err {
		r.t.Errorf("work %s is %s, output %s, error %q\nwant %s, output %s, error %q\nlog:\n%s",
			x.ID, got.Status, got.Output, got.Error, status, output, err, &r.log)
	}
}

// waitFor waits until the execution has a status, for at most an hour of fake time.
func (r *harness) waitFor(x *execution, status string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Hour)
	defer cancel()
	r.waitForStatus(ctx, x, status)
	if got := r.current(x); got.Status != status {
		r.t.Fatalf("work %s is %s after an hour, want %s\nlog:\n%s", x.ID, got.Status, status, &r.log)
	}
}

var errPrinter = errors.New("the printer is on fire")

// concurrencyCounter counts concurrent calls.
type concurrencyCounter struct {
	mu       sync.Mutex
	now, max int
}

// start counts a call until the returned function is called.
func (c *concurrencyCounter) start() (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now++
	c.max = max(c.max, c.now)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now--
	}
}
