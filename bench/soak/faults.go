package soak

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"
)

// mark is a fault in the report. Times are since the start.
type mark struct {
	Kind   string        `json:"kind"`
	At     time.Duration `json:"at_ns"`
	Until  time.Duration `json:"until_ns"`
	hazard bool          // work in progress may be repeated
}

// marks are the faults of a run. They may be read while a fault happens.
type marks struct {
	mu    sync.Mutex
	began time.Time
	list  []mark
}

// during adds a mark for the time of do.
func (m *marks) during(kind string, hazard bool, do func() error) error {
	m.mu.Lock()
	at := len(m.list)
	m.list = append(m.list, mark{Kind: kind, At: time.Since(m.began), hazard: hazard})
	m.mu.Unlock()
	err := do()
	m.mu.Lock()
	m.list[at].Until = time.Since(m.began)
	m.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	return nil
}

// fault is a change that the run must survive.
type fault struct {
	kind   string
	hazard bool
	do     func(*run, context.Context) error
}

// faults happen in this order, again and again.
var faults = []fault{
	{"subscriber fails", false, func(r *run, _ context.Context) error { r.subs[failing].fails.Store(true); return nil }},
	{"gateway SIGTERM", false, func(r *run, ctx context.Context) error { return r.restart(ctx, 0) }},
	{"gateway kill -9", true, func(r *run, ctx context.Context) error { return r.crash(ctx, 1) }},
	{"PostgreSQL restart", true, (*run).restartDatabase},
	{"subscriber is back", false, func(r *run, ctx context.Context) error {
		r.subs[failing].fails.Store(false)
		return r.enable(ctx, failing)
	}},
	{"days pass", false, func(r *run, ctx context.Context) error { return r.age(ctx) }},
	{"subscriber's address closed", false, func(r *run, _ context.Context) error { r.subs[away].close(); return nil }},
	{"PostgreSQL immediate", true, (*run).abortDatabase},
	{"gateway kill -9", true, func(r *run, ctx context.Context) error { return r.crash(ctx, 0) }},
	{"subscriber is back", false, func(r *run, ctx context.Context) error {
		if err := r.subs[away].open(); err != nil {
			return err
		}
		return r.enable(ctx, away)
	}},
	{"days pass", false, func(r *run, ctx context.Context) error { return r.age(ctx) }},
	{"day without partition", false, (*run).loseToday},
	{"worker restart", true, func(r *run, ctx context.Context) error {
		err := r.workers.stop()
		r.workers = startWorkers(ctx, r)
		return err
	}},
	{"gateway SIGTERM", false, func(r *run, ctx context.Context) error { return r.restart(ctx, 1) }},
	{"PostgreSQL kill -9", true, (*run).killDatabase},
}

// interval is the time between two faults: short runs have each fault once.
func (r *run) interval() time.Duration {
	const longest = time.Minute
	return min(r.For/time.Duration(len(faults)+1), longest)
}

// fail makes the faults happen until the end of the run.
func (r *run) fail(ctx context.Context) error {
	for i := 0; ; i++ {
		at := time.Duration(i+1) * r.interval()
		if at > r.For-r.interval()/2 {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(at - time.Since(r.began)):
		}
		if err := r.dropSettled(ctx); err != nil {
			return err
		}
		f := faults[i%len(faults)]
		r.printf("%6s  %s", time.Since(r.began).Round(time.Second), f.kind)
		if err := r.marks.during(f.kind, f.hazard, func() error { return f.do(r, ctx) }); err != nil {
			return err
		}
	}
}

// dropSettled shortens the retention in the middle of the run, so that the seeded events are dropped. The
// gateway that starts then drops their partitions before it is ready.
func (r *run) dropSettled(ctx context.Context) error {
	if r.Settled == 0 || r.settledDropped || time.Since(r.began) < r.For/2 {
		return nil
	}
	r.settledDropped = true
	for _, name := range []string{"EVENTS", "BODIES", "DELIVERIES"} {
		r.fleet.command.Env = append(r.fleet.command.Env, fmt.Sprintf("EVENTHOOK_RETENTION_%s_DAYS=%d", name, keepDays-1))
	}
	r.printf("%6s  retention drops the settled events", time.Since(r.began).Round(time.Second))
	return r.marks.during("retention drops the settled events", false, func() error { return r.restart(ctx, 0) })
}

// recover ends the faults that last, and starts both gateways once more: a start maintains partitions.
func (r *run) recover(ctx context.Context) error {
	if r.subs[failing].fails.Swap(false) {
		if err := r.enable(ctx, failing); err != nil {
			return err
		}
	}
	if r.subs[away].isClosed() {
		if err := r.subs[away].open(); err != nil {
			return err
		}
		if err := r.enable(ctx, away); err != nil {
			return err
		}
	}
	return r.marks.during("gateway SIGTERM", false, func() error { return r.restart(ctx, 0) })
}

func (s *subscriber) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server == nil
}

func (r *run) restart(ctx context.Context, i int) error {
	g := r.fleet.gateways[i]
	if err := g.stop(); err != nil {
		return err
	}
	return r.fleet.start(ctx, g)
}

func (r *run) crash(ctx context.Context, i int) error {
	r.fleet.gateways[i].kill()
	return r.fleet.start(ctx, r.fleet.gateways[i])
}

func (r *run) restartDatabase(ctx context.Context) error {
	if err := r.database.Stop(ctx); err != nil {
		return err
	}
	return r.database.Restart(ctx)
}

// abortDatabase shuts PostgreSQL down at once, without a checkpoint: it recovers from its log.
func (r *run) abortDatabase(ctx context.Context) error {
	if err := syscall.Kill(r.database.PID(), syscall.SIGQUIT); err != nil {
		return err
	}
	const patience, poll = 30 * time.Second, 20 * time.Millisecond
	for deadline := time.Now().Add(patience); ; time.Sleep(poll) { // Restart refuses while the server runs
		err := r.database.Restart(ctx)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func (r *run) killDatabase(ctx context.Context) error {
	if err := r.database.Kill(); err != nil {
		return err
	}
	return r.database.Restart(ctx)
}
