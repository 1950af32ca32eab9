package consume

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/consumers"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/panics"
)

// Sources finds a source by the slugs of its tenant and of the source.
type Sources interface {
	FindSource(ctx context.Context, tenant, source string) (eventhook.Source, error)
}

// Deps are the dependencies of a Runner.
type Deps struct {
	Store   Store
	Sources Sources
	// Open connects to a broker. The error is a text for users.
	Open func(ctx context.Context, p consumers.Place) (consumers.Consumer, error)
	// Take stores the events of messages; see ingest.Handler.TakeMessages.
	Take func(ctx context.Context, in ingest.Messages) (done int, err error)
	// Await waits until Take would take a message; see ingest.Handler.AwaitMessages.
	Await func(ctx context.Context, in ingest.Messages, bytes int) error
	Ready func() error // returns why this instance cannot use the database now, or nil
	Lease time.Duration
	// Bytes is the maximum size of messages that the consumers of this instance hold. A tenant can use half of it.
	Bytes int64
	Log   *slog.Logger
	Now   func() time.Time
}

const (
	renewEvery = 2 * time.Second // at most; see leasePart
	// claimTimeout bounds one exchange with the store.
	claimTimeout = 5 * time.Second
	// leasePart is the part of a lease that renewEvery and claimTimeout never exceed.
	leasePart = 5
	// overdueAfter is how long a source may be without a consumer until an instance that has its share already takes it.
	overdueAfter = 5 * time.Second
)

// Runner runs the consumers of this instance. Call Run once.
type Runner struct {
	config Config
	Deps

	// Used by Run only.
	running   map[eventhook.SourceID]*worker // also workers that are stopping
	renewedAt time.Time                      // when the leases were last renewed

	memory   *memory
	hasEnded chan struct{} // gets an element when a worker has ended

	mu     sync.Mutex
	states map[eventhook.ConsumerStatus]int
}

// New returns a Runner. The config must have been validated.
func New(config Config, deps Deps) *Runner {
	return &Runner{config: config, Deps: deps, running: map[eventhook.SourceID]*worker{}, memory: newMemory(deps.Bytes), hasEnded: make(chan struct{}, 1)}
}

// Count returns the number of consumers of this instance by their status.
func (r *Runner) Count() map[eventhook.ConsumerStatus]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.states
}

// Run consumes messages until ctx ends. Then it ends the consumers, gives messages that are not settled back to their
// brokers, and releases the leases.
func (r *Runner) Run(ctx context.Context) error {
	if r.config.Sources == 0 {
		return nil
	}
	defer r.drain(context.WithoutCancel(ctx))
	for ctx.Err() == nil {
		changed := r.Store.ConsumersChanged()
		r.round(ctx)
		r.pause(ctx, changed)
	}
	return nil
}

// pause waits for the next round.
func (r *Runner) pause(ctx context.Context, changed <-chan struct{}) {
	next := time.NewTimer(min(renewEvery, r.Lease/leasePart))
	defer next.Stop()
	select {
	case <-ctx.Done():
	case <-changed:
	case <-r.hasEnded:
	case <-next.C:
	}
}

// exchange returns the context of an exchange with the store.
func (r *Runner) exchange(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, min(claimTimeout, r.Lease/leasePart))
}

// round renews the leases, and then takes or releases sources according to the share of this instance.
func (r *Runner) round(ctx context.Context) {
	err := r.renew(ctx)
	r.reap(ctx)
	if err == nil {
		if err := r.balance(ctx); err != nil && ctx.Err() == nil {
			r.Log.Warn("cannot claim sources that consume messages; retrying later", "error", err)
		}
	} else if lost := r.Lease * 2 / 3; len(r.held()) > 0 && r.Now().Sub(r.renewedAt) >= lost { //nolint:mnd // before the leases expire
		r.Log.Warn("the leases of consumers cannot be renewed: stopping them", "error", err)
		for _, w := range r.running {
			w.isHeld = false
			w.cancel()
		}
	}
	r.count()
}

// renew renews the leases, also those of consumers that are stopping. It stops the consumers whose leases are lost, and
// those whose sources were changed.
func (r *Runner) renew(ctx context.Context) error {
	if err := r.Ready(); err != nil {
		return err
	}
	var reports []Report
	for _, w := range r.running {
		reports = append(reports, Report{w.held, w.current()})
	}
	began := r.Now()
	limited, cancel := r.exchange(ctx)
	defer cancel()
	kept, err := r.Store.RenewConsumers(limited, reports, r.Lease)
	if err != nil {
		return err
	}
	r.renewedAt = began
	leases := map[eventhook.SourceID]Lease{}
	for _, l := range kept {
		leases[l.Source] = l
	}
	for id, w := range r.running {
		l, isHeld := leases[id]
		if w.isHeld = isHeld; isHeld {
			w.held = l
		}
		if !isHeld || l.Version != w.lease.Version {
			w.cancel()
		}
	}
	return nil
}

// balance claims or releases sources until this instance has its share.
func (r *Runner) balance(ctx context.Context) error {
	limited, cancel := r.exchange(ctx)
	defer cancel()
	sources, capacities, err := r.Store.ConsumerDemand(limited, r.config.Sources)
	if err != nil {
		return err
	}
	total := 0
	for _, n := range capacities {
		total += n
	}
	r.releaseStuck(sources - total)
	share := min(shareOf(sources, capacities), r.config.Sources)
	held := r.held()
	if surplus := len(held) - share; surplus > 0 {
		release(held[:surplus])
		return nil
	}
	for _, claim := range []struct {
		max     int
		overdue time.Duration
	}{{share - len(held), 0}, {r.config.Sources - share, overdueAfter}} {
		most := min(claim.max, r.config.Sources-len(r.running))
		if most <= 0 {
			continue
		}
		claimed, err := r.Store.ClaimConsumers(limited, most, r.Lease, claim.overdue)
		if err != nil {
			return err
		}
		for _, l := range claimed {
			r.start(l)
		}
	}
	return nil
}

// start starts a consumer. If an earlier consumer of the source is stopping, reap starts the next one.
func (r *Runner) start(l Lease) {
	if w := r.running[l.Source]; w != nil {
		w.held, w.isHeld, w.isReleased = l, true, false
		w.cancel()
		return
	}
	w := newWorker(r.Deps, r.memory, l)
	r.running[l.Source] = w
	go func() {
		defer notify(r.hasEnded)
		panics.Guarded(w.run)()
	}()
}

func (r *Runner) count() {
	states := map[eventhook.ConsumerStatus]int{}
	for _, w := range r.running {
		states[w.current().Status]++
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states = states
}
