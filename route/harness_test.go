package route_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/route"
)

// harness has a processor with a fake queue, in a synctest bubble.
type harness struct {
	*queue
	*route.Processor
	t          *testing.T
	stop       func()
	log        lockedBuffer
	lostLeases []int // lost leases that each settle reported
	settled    int   // events that were reported as settled
	stale      int   // events whose plan was not stored
	planned    int   // events that were reported as stored together with their plans
	limiter    *cpushare.Limiter
	compile    func(eventhook.Target) (route.Effector, error)
	routing    map[eventhook.SourceID]func() ([]eventhook.Route, error)
	reads      int
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (b *harness) SourceRouting(ctx context.Context, tenant eventhook.TenantID, id eventhook.SourceID) (route.SourceRoutes, error) {
	b.mu.Lock()
	b.reads++
	routing, generation := b.routing[id], b.generation[tenant]
	b.mu.Unlock()
	if ctx.Err() != nil || routing == nil {
		return route.SourceRoutes{Generation: generation}, ctx.Err()
	}
	routes, err := routing()
	return route.SourceRoutes{Generation: generation, Routes: routes}, err
}

func (b *harness) Settled(batch []*effects.Settlement, lost int, _ time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lostLeases = append(b.lostLeases, lost)
	for _, s := range batch {
		if s.Status != eventhook.EventProcessing {
			b.settled++
		}
	}
}

func (b *harness) Stale() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stale++
}

func (b *harness) Planned(batch []*effects.Settlement) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.planned += len(batch)
}

const lease = 30 * time.Second

// inBubble calls f with a harness in which the source with the zero id has routes. The test fails if a
// goroutine is left when f ends.
func inBubble(t *testing.T, config func(*route.Config), f func(t *testing.T, b *harness), routes ...eventhook.Route) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := route.Config{Workers: 2, BatchSize: 4, InboxEvents: 100, InboxBytes: 1 << 20, PollInterval: time.Second, DrainTimeout: 5 * time.Second, CachedSources: 10}
		if config != nil {
			config(&c)
		}
		b := &harness{queue: newQueue(), t: t, compile: compileTarget, limiter: newLimiter()}
		b.routing = map[eventhook.SourceID]func() ([]eventhook.Route, error){{}: func() ([]eventhook.Route, error) { return routes, nil }}
		b.Processor = route.New(c, route.Deps{
			Queue: b, Routing: b, Target: func(t eventhook.Target) (route.Effector, error) { return b.compile(t) }, Observer: b, CPULimiter: b.limiter, Log: slog.New(slog.NewTextHandler(&b.log, nil)), Now: time.Now, Lease: lease,
		})
		f(t, b)
		if b.stop != nil {
			b.stop()
		}
	})
}

// newLimiter returns a limiter with buckets of 4 s that refill at half of a processor's time.
func newLimiter() *cpushare.Limiter {
	return cpushare.New(cpushare.Config{Processors: 0.5, Burst: 4 * time.Second, Tenants: 100}, nil, time.Now)
}

// check returns the faults that Check finds in a route.
func check(t testing.TB, r eventhook.Route) eventhook.Faults {
	t.Helper()
	faults, err := route.Check(t.Context(), eventhook.TenantID{}, r)
	if err != nil {
		t.Fatalf("Check: %v", err)
	}
	return faults
}

// explain returns the explanation of an event.
func explain(t testing.TB, p *route.Program, e *eventhook.Event) []route.Explanation {
	t.Helper()
	list, err := p.Explain(t.Context(), newLimiter(), e, noon)
	if err != nil {
		t.Fatalf("Explain: %v", err)
	}
	return list
}

// run starts the processor; stop ends it and waits.
func (b *harness) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- b.Run(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Errorf("Run: got %v, want nil", err)
		}
	})
	synctest.Wait()
}

// pass advances the time of the bubble and waits until all goroutines are blocked.
func (b *harness) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// handOver accepts n leased events as package ingest does: it reserves space, stores the events and
// puts them into the inbox.
func (b *harness) handOver(n int) {
	b.t.Helper()
	if got := b.Reserve(n); got != n {
		b.t.Fatalf("Reserve(%d): got %d, want all", n, got)
	}
	var list []*eventhook.Event
	for range n {
		list = append(list, b.add("push", lease))
	}
	b.Put(list)
}

// wantStatuses compares the number of events in each state.
func (b *harness) wantStatuses(want map[eventhook.EventStatus]int) {
	b.t.Helper()
	got := b.statuses()
	if len(got) != len(want) {
		b.t.Errorf("events: got %v, want %v", got, want)
		return
	}
	for status, n := range want {
		if got[status] != n {
			b.t.Errorf("events: got %v, want %v", got, want)
			return
		}
	}
}
