// Package route plans events: it matches an event against the compiled routes of its source and
// returns an effects.Settlement, the event's actions with their effects. Planning stores nothing. A
// plan names the generation of the tenant's configuration from which it was made; the store rejects
// a plan of another generation.
//
// The same code plans an event in one of two places:
//
//   - Processor.PlanArrival plans an event before it is stored, if this is cheap and cannot fail.
//     The event is stored together with its effects and needs no processing.
//   - Processor.Run plans all other events. It takes leased events, handed over by the ingest path
//     of this instance or claimed from the database, and settles them in batches.
//
// The processor has two queues. The inbox holds events to plan on the quick path, with at most
// about a millisecond of evaluation for each event. The slow queue holds, for each tenant
// separately, events that run scripts, that needed more time, or whose effects are large.
//
// If a lease is lost, the settlement writes nothing, and the holder of the next lease plans the
// event again. If the process ends, the leases expire, and no event is lost. The package holds no
// transaction and sends no request.
package route

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/panics"
	"github.com/eventhook/eventhook/internal/snapshot"
)

// Config sets the limits of the processor.
type Config struct {
	Workers       int           `config:"workers"`        // batches settled at once, on the quick and on the slow path each
	BatchSize     int           `config:"batch_size"`     // events settled in one transaction
	InboxEvents   int           `config:"inbox_events"`   // events in the inbox; the slow queue holds half as many more
	InboxBytes    int           `config:"inbox_bytes"`    // bytes of the events in the inbox; the slow queue holds half as many more
	PollInterval  time.Duration `config:"poll_interval"`  // how often to poll the database if no notification arrives
	DrainTimeout  time.Duration `config:"drain_timeout"`  // how long to process events in memory at shutdown
	CachedSources int           `config:"cached_sources"` // sources whose compiled routes are cached
}

// DefaultConfig suits two cores.
func DefaultConfig() Config {
	return Config{Workers: 2, BatchSize: 256, InboxEvents: 20_000, InboxBytes: 64 << 20,
		PollInterval: time.Second, DrainTimeout: 5 * time.Second, CachedSources: 30_000}
}

// Validate reports every fault by its key. Zero workers are allowed: such an instance accepts
// events, and other instances process them.
func (c Config) Validate() eventhook.Faults {
	var f eventhook.Faults
	if c.Workers < 0 {
		f.Add("workers", "%d, want at least 0", c.Workers)
	}
	for _, v := range []struct {
		key   string
		value int
	}{{"batch_size", c.BatchSize}, {"inbox_events", c.InboxEvents}, {"inbox_bytes", c.InboxBytes}, {"cached_sources", c.CachedSources}} {
		if v.value < 1 {
			f.Add(v.key, "%d, want at least 1", v.value)
		}
	}
	if c.PollInterval < 10*time.Millisecond {
		f.Add("poll_interval", "%s, want at least 10ms", c.PollInterval)
	}
	if c.DrainTimeout < 0 {
		f.Add("drain_timeout", "%s, want at least 0", c.DrainTimeout)
	}
	return f
}

// Queue leases and settles events.
//
// SettleEvents is atomic. It returns the settlements that it did not write, because the lease was
// lost or because the plan is stale. It sets IsStale of a stale plan, whose event must be planned
// again.
type Queue interface {
	ClaimEvents(ctx context.Context, limit int, lease time.Duration) ([]*eventhook.Event, error)
	SettleEvents(ctx context.Context, batch []*effects.Settlement) (lost []*effects.Settlement, err error)
	// EventActions returns the actions of events. An action with a request has the state of its
	// delivery.
	EventActions(ctx context.Context, events []*eventhook.Event) (map[eventhook.EventID][]eventhook.Action, error)
	// ReleaseEvents ends the leases of events. Each event is due at its NextRetryAt, or now if that
	// is nil.
	ReleaseEvents(ctx context.Context, events []*eventhook.Event) error
	EventsWake() <-chan struct{}
}

// Fanout adds the deliveries of published events to a settlement, one for each subscription of the
// tenant that matches. The meter counts the work. If the meter stops, the settlement must not be
// used, except when it stopped at its limit: then the actions that exceeded it have failed.
//
// Match reads the subscriptions if they are not in memory; MatchNow reports false in that case. If
// the subscriptions are of a newer generation than the settlement, Match returns ErrStalePlan and
// MatchNow reports false.
type Fanout interface {
	Match(ctx context.Context, m *meter.Meter, s *effects.Settlement) error
	MatchNow(m *meter.Meter, s *effects.Settlement) bool
}

// Routing reads a source's retry policy and its enabled routes in order of evaluation, with the
// generation of the tenant's configuration.
type Routing interface {
	SourceRouting(ctx context.Context, tenant eventhook.TenantID, source eventhook.SourceID) (SourceRoutes, error)
}

// SourceRoutes is the configuration by which a source's events are planned.
type SourceRoutes struct {
	Generation int64
	Retry      eventhook.RetryPolicy
	Routes     []eventhook.Route
}

// Observer receives the results. Settled gets the settlements of a batch that were stored and the
// number of lost leases. Planned gets the plans that were stored together with their events. Stale
// is called for each event whose plan was not stored because the configuration had changed.
type Observer interface {
	Stale()
	Settled(batch []*effects.Settlement, lost int, took time.Duration)
	Planned(batch []*effects.Settlement)
}

// Deps are the dependencies of a Processor.
type Deps struct {
	Queue      Queue
	Routing    Routing
	Target     func(eventhook.Target) (Effector, error)
	Observer   Observer
	Fanout     Fanout            // may be nil
	CPULimiter *cpushare.Limiter // limits the evaluation time of each tenant; nil in some tests
	Traces     bool              // settlements have the time of their planning
	Log        *slog.Logger
	Now        func() time.Time
	Lease      time.Duration
}

// Processor plans and settles leased events. Its methods are safe for concurrent use.
type Processor struct {
	Deps
	config    Config
	inbox     *inbox
	slow      *slowQueue
	programs  *snapshot.Cache[programKey, *Program]
	run       runner
	postponed postponedLog
}

// programAge is how long compiled routes are cached without a notification of a change. It is a
// safety net in case a bug or an outage suppressed a notification.
const programAge = 10 * time.Minute

// programKey names a source. The tenant is part of the key, because an event of a deleted source
// still follows the generation of its tenant.
type programKey struct {
	tenant eventhook.TenantID
	source eventhook.SourceID
}

// New returns a Processor. Run starts it.
func New(config Config, deps Deps) *Processor {
	p := &Processor{
		Deps: deps, config: config, inbox: newInbox(config.InboxEvents, config.InboxBytes), slow: newSlowQueue(config.InboxEvents/2, config.InboxBytes/2),
		run: runForEvent,
	}
	if config.Workers == 0 {
		p.inbox.close()
	}
	p.programs = snapshot.NewWeighed(config.CachedSources, (*Program).weight, programAge, deps.Now, p.loadProgram)
	return p
}

// loadProgram reads a source's routes and compiles them. The compilation is charged to the tenant's
// share.
func (p *Processor) loadProgram(ctx context.Context, of programKey) (program *Program, err error) {
	routed, err := p.Routing.SourceRouting(ctx, of.tenant, of.source)
	if err != nil {
		return nil, err
	}
	compile := func() { program = Compile(routed.Retry, routed.Routes, p.Deps.Target) }
	if len(routed.Routes) == 0 || p.CPULimiter == nil {
		compile()
	} else if err := p.CPULimiter.Compile(ctx, of.tenant, compile); err != nil {
		return nil, err
	}
	program.generation, program.run, program.panicked = routed.Generation, p.run, p.logPanic
	return program, nil
}

// Reserve reserves space in the inbox for up to n events that are about to be accepted, and returns
// the number that it reserved. The caller must use the space with Put or return it with Release.
func (p *Processor) Reserve(n int) int { return p.inbox.reserve(n) }

// Release returns the reserved space of n events.
func (p *Processor) Release(n int) { p.inbox.release(n) }

// Put adds accepted events that are leased to this instance. Their space must be reserved.
func (p *Processor) Put(events []*eventhook.Event) { p.inbox.put(events) }

// InvalidateSource drops a source's compiled routes.
func (p *Processor) InvalidateSource(source eventhook.SourceID) {
	p.programs.InvalidateFunc(func(of programKey) bool { return of.source == source })
}

// InvalidateAll drops all compiled routes.
func (p *Processor) InvalidateAll() { p.programs.Clear() }

// Run processes events until ctx ends. It then processes the events in memory for at most
// DrainTimeout, releases the rest, and returns nil.
func (p *Processor) Run(ctx context.Context) error {
	if p.config.Workers == 0 {
		<-ctx.Done()
		return nil
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var pollers, workers, slow sync.WaitGroup
	noMoreInput := make(chan struct{}) // closed when the slow queue gets no more events
	pollers.Go(panics.Guarded(func() { p.poll(ctx) }))
	for range p.config.Workers {
		workers.Go(panics.Guarded(func() { p.work(ctx, working) }))
		slow.Go(panics.Guarded(func() { p.workSlowQueue(working, noMoreInput) }))
	}
	<-ctx.Done()
	p.inbox.close()
	drain := time.AfterFunc(p.config.DrainTimeout, stop)
	defer drain.Stop()
	pollers.Wait()
	workers.Wait()
	close(noMoreInput)
	slow.Wait()
	p.releaseRest()
	return nil
}

// releaseRest releases the events that were not processed before the drain timeout.
func (p *Processor) releaseRest() {
	left := p.inbox.take(math.MaxInt)
	for slow := p.slow.take(math.MaxInt); len(slow) > 0; slow = p.slow.take(math.MaxInt) {
		left = append(left, slow...)
	}
	if len(left) == 0 {
		return
	}
	p.Log.Warn("the drain timeout ended before all events in memory were processed; other instances process the rest", "events", len(left))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	p.releaseEvents(ctx, left)
}

// poll claims due events from the database: retries, events that were stored without a lease, and
// events whose lease expired.
func (p *Processor) poll(ctx context.Context) {
	tick := time.NewTimer(0)
	defer tick.Stop()
	<-tick.C
	for ctx.Err() == nil {
		wake := p.Queue.EventsWake()
		if p.claim(ctx) {
			continue
		}
		tick.Reset(p.config.PollInterval)
		select {
		case <-ctx.Done():
		case <-wake:
		case <-tick.C:
		}
	}
}

// claim fills the inbox and reports whether more events may be due.
func (p *Processor) claim(ctx context.Context) bool {
	granted := p.inbox.reserve(p.config.BatchSize)
	if granted == 0 {
		return false
	}
	events, err := p.Queue.ClaimEvents(ctx, granted, p.Lease)
	if err != nil && ctx.Err() == nil {
		p.Log.Warn("cannot claim events; trying again", "error", err)
	}
	if err != nil {
		events = nil
	}
	p.inbox.release(granted - len(events))
	p.inbox.put(events)
	return len(events) == granted
}

// work settles batches of the inbox. It returns when working ends, or when ctx has ended and the
// inbox is empty.
func (p *Processor) work(ctx, working context.Context) {
	for working.Err() == nil {
		batch := p.inbox.take(p.config.BatchSize)
		if len(batch) > 0 {
			p.process(working, batch, quickPath)
			continue
		}
		if ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-p.inbox.wake:
		}
	}
}

// logPanic logs where a route panicked. It omits the panic value, which may quote the webhook.
func (p *Processor) logPanic(e *eventhook.Event, at string, reason any, stack []byte) {
	p.Log.Error("a route panicked; its action has failed", "event", e.ID, "trace_id", e.Trace(), "at", at,
		"panic", fmt.Sprintf("%T", reason), "stack", string(stack))
}
