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

// rig is a worker and its gateway in a bubble, where hours take no time.
type rig struct {
	*gateway
	t      *testing.T
	worker *worker.Worker
	log    strings.Builder
	stop   context.CancelFunc
	ended  chan error
}

// inBubble runs a test with a worker that is not running yet.
func inBubble(t *testing.T, test func(*rig), options ...worker.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{gateway: newGateway(), t: t, ended: make(chan error, 1)}
		log := slog.New(slog.NewTextHandler(&r.log, nil))
		options = append([]worker.Option{worker.WithHTTPClient(r.client()), worker.WithLogger(log)}, options...)
		r.worker = worker.New(tenantURL, key, options...)
		test(r)
	})
}

// start lets the worker run; the test's end stops it.
func (r *rig) start() {
	ctx, stop := context.WithCancel(r.t.Context())
	r.stop = stop
	go func() { r.ended <- r.worker.Run(ctx) }()
	r.t.Cleanup(stop)
}

// stopped stops the worker, and fails the test if that is an error.
func (r *rig) stopped() {
	r.t.Helper()
	r.stop()
	if err := <-r.ended; err != nil {
		r.t.Errorf("Run returned %v, want nil", err)
	}
}

// want holds how an execution stands.
func (r *rig) want(x *execution, status, output, err string) {
	r.t.Helper()
	got := r.see(x)
	if got.Status != status || string(got.Output) != output || got.Error != err {
		r.t.Errorf("work %s is %s, output %s, error %q\nwant %s, output %s, error %q\nlog:\n%s",
			x.ID, got.Status, got.Output, got.Error, status, output, err, &r.log)
	}
}

// done waits until work has a status, at most an hour of the bubble.
func (r *rig) done(x *execution, status string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Hour)
	defer cancel()
	r.until(ctx, x, status)
	if got := r.see(x); got.Status != status {
		r.t.Fatalf("work %s is %s after an hour, want %s\nlog:\n%s", x.ID, got.Status, status, &r.log)
	}
}

var errBroken = errors.New("the printer is on fire")

// crowd counts who is in it.
type crowd struct {
	mu        sync.Mutex
	now, most int
}

func (c *crowd) enter() (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now++
	c.most = max(c.most, c.now)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now--
	}
}
