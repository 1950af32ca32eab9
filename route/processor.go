// Package route plans events: it matches an event against the compiled routes of its
// source and returns an effects.Settlement, the event's actions with their effects.
// Matching is pure. A plan names the generation of the tenant's configuration that it
// was made from; the store writes nothing of a plan of another generation.
//
// There is one way to plan, called from two places:
//
//   - PlanArrival plans an event before it is stored, if that is cheap and certain. The
//     event is stored together with its effects, and needs no processing.
//   - The Processor plans all other events. It takes leased events, from this instance's
//     accept path or from the database, and settles them in batches. Events that run
//     scripts, were slow, or make much wait in a queue for each tenant.
//
// If a lease is lost, the settle writes nothing, and the holder of the next lease plans
// the event. If the process ends, leases expire, and no event is lost. The package holds
// no transaction and sends no request.
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
	"github.com/eventhook/eventhook/internal/snapshot"
)

// Config bounds the processor.
type Config struct {
	Workers       int           `config:"workers"`        // batches settled at once, and as many of what runs scripts
	BatchSize     int           `config:"batch_size"`     // events settled in one transaction
	InboxEvents   int           `config:"inbox_events"`   // events in memory that wait; half as many more for scripts
	InboxBytes    int           `config:"inbox_bytes"`    // and their bytes
	PollInterval  time.Duration `config:"poll_interval"`  // the backstop when no wake comes
	DrainTimeout  time.Duration `config:"drain_timeout"`  // at a stop, for what is in memory
	CachedSources int           `config:"cached_sources"` // compiled routes kept
}

// DefaultConfig suits two cores.
func DefaultConfig() Config {
	return Config{Workers: 2, BatchSize: 256, InboxEvents: 20_000, InboxBytes: 64 << 20,
		PollInterval: time.Second, DrainTimeout: 5 * time.Second, CachedSources: 30_000}
}

// Validate reports every fault by its key. Zero workers are allowed: such an
// instance accepts events and leaves them to others.
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

// Queue is where events are leased and settled. SettleEvents is atomic and
// returns the settlements of which it wrote nothing: their leases were lost, or
// they are IsStale and must be planned again.
type Queue interface {
	ClaimEvents(ctx context.Context, limit int, lease time.Duration) ([]*eventhook.Event, error)
	SettleEvents(ctx context.Context, batch []*effects.Settlement) (lost []*effects.Settlement, err error)
	// EventActions tells the actions of events, those of requests in the state of
	// their deliveries.
	EventActions(ctx context.Context, events []*eventhook.Event) (map[eventhook.EventID][]eventhook.Action, error)
	// ReleaseEvents gives events back: each is due at its NextRetryAt, or now.
	ReleaseEvents(ctx context.Context, events []*eventhook.Event) error
	EventsWake() <-chan struct{}
}

// Fanout makes the deliveries of the events that an event's routes publish, by the
// tenant's subscriptions, as a part of planning the event: the meter counts the work.
// If the meter stops, the settlement must not be used, unless it stopped at its limit:
// then the actions fail for which that was not enough.
//
// Match waits for the subscriptions to be read. MatchNow does not: it reports false if
// they are not in memory. The error of Match is ErrStalePlan, and MatchNow reports
// false, if the subscriptions are of a newer generation than the settlement.
type Fanout interface {
	Match(ctx context.Context, m *meter.Meter, s *effects.Settlement) error
	MatchNow(m *meter.Meter, s *effects.Settlement) bool
}

// Routing reads a source's retries and enabled routes in their order, with the
// generation of the tenant's configuration that they are of.
type Routing interface {
	SourceRouting(ctx context.Context, tenant eventhook.TenantID, source eventhook.SourceID) (SourceRoutes, error)
}

// SourceRoutes is what a source's events are planned by.
type SourceRoutes struct {
	Generation int64
	Retry      eventhook.RetryPolicy
	Routes     []eventhook.Route
}

// Observer hears which events of a batch were settled, and how many leases were lost;
// and which events were stored together with their effects.
type Observer interface {
	Settled(batch []*effects.Settlement, lost int, took time.Duration)
	Planned(batch []*effects.Settlement)
}

// Deps are what a processor works with.
type Deps struct {
	Queue    Queue
	Routing  Routing
	Target   func(eventhook.Target) (Effector, error)
	Observer Observer
	Fanout   Fanout            // may be nil
	Shares   *cpushare.Limiter // of each tenant, of the time for its filters, transforms and targets
	Log      *slog.Logger
	Now      func() time.Time
	Lease    time.Duration
}

// Processor takes leased events and settles them.
type Processor struct {
	Deps
	config   Config
	inbox    *inbox
	slow     *slowLane
	programs *snapshot.Cache[programKey, *Program]
	run      runner
	leaving  leaving
}

// programAge is how long compiled routes are trusted when no change is told; as
// that of sources it is there for what nobody has thought of.
const programAge = 10 * time.Minute

// programKey names a source. An event of a source that is gone still has its tenant,
// whose generation its plan follows.
type programKey struct {
	tenant eventhook.TenantID
	source eventhook.SourceID
}

// New makes a processor; Run starts it.
func New(config Config, deps Deps) *Processor {
	p := &Processor{
		Deps: deps, config: config, inbox: newInbox(config.InboxEvents, config.InboxBytes), slow: newSlowLane(config.InboxEvents/2, config.InboxBytes/2),
		run: runAccepted,
	}
	if config.Workers == 0 {
		p.inbox.close()
	}
	p.programs = snapshot.NewWeighed(config.CachedSources, (*Program).weight, programAge, deps.Now, p.load)
	return p
}

// load reads a source's routes and compiles them in their tenant's share of time.
func (p *Processor) load(ctx context.Context, of programKey) (program *Program, err error) {
	routed, err := p.Routing.SourceRouting(ctx, of.tenant, of.source)
	if err != nil {
		return nil, err
	}
	compile := func() { program = Compile(routed.Retry, routed.Routes, p.Deps.Target) }
	if len(routed.Routes) == 0 || p.Shares == nil {
		compile()
	} else if err := p.Shares.Compile(ctx, of.tenant, compile); err != nil {
		return nil, err
	}
	program.generation, program.run, program.panicked = routed.Generation, p.run, p.logPanic
	return program, nil
}

// Reserve asks for room for n events that are about to be accepted. Each
// granted one must be Put or Released.
func (p *Processor) Reserve(n int) int { return p.inbox.reserve(n) }

// Release gives reserved room back.
func (p *Processor) Release(n int) { p.inbox.release(n) }

// Put hands over accepted events, leased to this instance.
func (p *Processor) Put(events []*eventhook.Event) { p.inbox.put(events) }

// ForgetSource drops a source's compiled routes.
func (p *Processor) ForgetSource(source eventhook.SourceID) {
	p.programs.InvalidateFunc(func(of programKey) bool { return of.source == source })
}

// ForgetAll drops all compiled routes.
func (p *Processor) ForgetAll() { p.programs.Clear() }

// Run processes events until ctx ends, then what is in memory, for at most
// DrainTimeout, and gives the rest back. It returns when nothing is left.
func (p *Processor) Run(ctx context.Context) error {
	if p.config.Workers == 0 {
		<-ctx.Done()
		return nil
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var pollers, workers, slow sync.WaitGroup
	fed := make(chan struct{}) // closed when the slow lane gets no more
	pollers.Go(func() { p.poll(ctx) })
	for range p.config.Workers {
		workers.Go(func() { p.work(ctx, working) })
		slow.Go(func() { p.workSlowly(working, fed) })
	}
	<-ctx.Done()
	p.inbox.close()
	drain := time.AfterFunc(p.config.DrainTimeout, stop)
	defer drain.Stop()
	pollers.Wait()
	workers.Wait()
	close(fed)
	slow.Wait()
	p.giveBack()
	return nil
}

// giveBack releases what the drain did not get to.
func (p *Processor) giveBack() {
	left := p.inbox.take(math.MaxInt)
	for slow := p.slow.take(math.MaxInt); len(slow) > 0; slow = p.slow.take(math.MaxInt) {
		left = append(left, slow...)
	}
	if len(left) == 0 {
		return
	}
	p.Log.Warn("the drain ended before all events in memory were processed; others will", "events", len(left))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	p.release(ctx, left)
}

// poll claims due events from the database: those that no accept path handed
// over, retries, and what other instances have left behind.
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

// claim fills the inbox and reports whether there may be more.
func (p *Processor) claim(ctx context.Context) bool {
	room := p.inbox.reserve(p.config.BatchSize)
	if room == 0 {
		return false
	}
	events, err := p.Queue.ClaimEvents(ctx, room, p.Lease)
	if err != nil && ctx.Err() == nil {
		p.Log.Warn("cannot claim events; trying again", "error", err)
	}
	if err != nil {
		events = nil
	}
	p.inbox.release(room - len(events))
	p.inbox.put(events)
	return len(events) == room
}

// work settles batches until ctx has ended and the inbox is empty, or working
// has ended.
func (p *Processor) work(ctx, working context.Context) {
	for working.Err() == nil {
		batch := p.inbox.take(p.config.BatchSize)
		if len(batch) > 0 {
			p.process(working, batch, quickly)
			continue
		}
		if ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-p.inbox.filled:
		}
	}
}

// logPanic tells where a route panicked, and not over what: the reason may
// quote the webhook.
func (p *Processor) logPanic(e *eventhook.Event, at string, reason any, stack []byte) {
	p.Log.Error("a route panicked; its action has failed", "event", e.ID, "at", at, "panic", fmt.Sprintf("%T", reason), "stack", string(stack))
}
