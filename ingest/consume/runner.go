package consume

import (
	"context"
	"log/slog"
	"slices"
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
	Take  func(ctx context.Context, in ingest.Messages) (done int, err error)
	Ready func() error // returns why this instance cannot use the database now, or nil
	Lease time.Duration
	Log   *slog.Logger
	Now   func() time.Time
}

const (
	renewEvery = 2 * time.Second
	// claimTimeout bounds one exchange with the store.
	claimTimeout = 5 * time.Second
	// overdueAfter is how long a source may be without a consumer until an instance beyond its share takes it.
	overdueAfter = 5 * time.Second
)

// Runner runs the consumers of this instance. Call Run once.
type Runner struct {
	config Config
	Deps

	// Used by Run only.
	running   map[eventhook.SourceID]*worker
	renewedAt time.Time // when the leases were last renewed

	mu     sync.Mutex
	states map[eventhook.ConsumerStatus]int
}

// New returns a Runner. The config must have been validated.
func New(config Config, deps Deps) *Runner {
	return &Runner{config: config, Deps: deps, running: map[eventhook.SourceID]*worker{}}
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
	defer func() { r.release(context.WithoutCancel(ctx), r.workers()) }()
	for ctx.Err() == nil {
		changed := r.Store.ConsumersChanged()
		r.round(ctx)
		next := time.NewTimer(renewEvery)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-next.C:
		}
		next.Stop()
	}
	return nil
}

// round renews the leases, and then takes or releases sources according to the share of this instance.
func (r *Runner) round(ctx context.Context) {
	if err := r.renew(ctx); err != nil {
		if lost := r.Lease * 2 / 3; len(r.running) > 0 && r.Now().Sub(r.renewedAt) >= lost { //nolint:mnd // before the leases expire
			r.Log.Warn("the leases of consumers cannot be renewed: stopping them", "error", err)
			r.stop(r.workers())
		}
		return
	}
	if err := r.balance(ctx); err != nil && ctx.Err() == nil {
		r.Log.Warn("cannot claim sources that consume messages; retrying later", "error", err)
	}
	r.count()
}

// renew renews the leases. It stops the consumers whose leases are lost, and restarts those whose sources were changed.
func (r *Runner) renew(ctx context.Context) error {
	if err := r.Ready(); err != nil {
		return err
	}
	var reports []Report
	for _, w := range r.running {
		reports = append(reports, Report{w.lease, w.current()})
	}
	began := r.Now()
	limited, cancel := context.WithTimeout(ctx, claimTimeout)
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
	var ended []*worker
	var changed []Lease
	for id, w := range r.running {
		l, isKept := leases[id]
		if isKept && l.Version == w.lease.Version {
			continue
		}
		if ended = append(ended, w); isKept {
			changed = append(changed, l)
		}
	}
	r.stop(ended)
	r.start(changed)
	return nil
}

// balance claims or releases sources until this instance has its share.
func (r *Runner) balance(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	sources, capacities, err := r.Store.ConsumerDemand(limited, r.config.Sources)
	if err != nil {
		return err
	}
	share := min(shareOf(sources, capacities), r.config.Sources)
	if surplus := len(r.running) - share; surplus > 0 {
		r.release(ctx, r.workers()[:surplus])
		return nil
	}
	for _, claim := range []struct {
		max     int
		overdue time.Duration
	}{{share - len(r.running), 0}, {r.config.Sources - share, overdueAfter}} {
		if claim.max <= 0 {
			continue
		}
		claimed, err := r.Store.ClaimConsumers(limited, claim.max, r.Lease, claim.overdue)
		if err != nil {
			return err
		}
		r.start(claimed)
	}
	return nil
}

// workers returns the running consumers, the youngest first.
func (r *Runner) workers() []*worker {
	var list []*worker
	for _, w := range r.running {
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b *worker) int { return b.startedAt.Compare(a.startedAt) })
	return list
}

func (r *Runner) start(leases []Lease) {
	for _, l := range leases {
		w := newWorker(r.Deps, l)
		r.running[l.Source] = w
		go panics.Guarded(w.run)()
	}
}

// stop ends consumers and waits for their end.
func (r *Runner) stop(list []*worker) {
	for _, w := range list {
		w.cancel()
	}
	for _, w := range list {
		<-w.ended
		delete(r.running, w.lease.Source)
	}
}

// release ends consumers and their leases.
func (r *Runner) release(ctx context.Context, list []*worker) {
	if len(list) == 0 {
		return
	}
	r.stop(list)
	leases := make([]Lease, len(list))
	for i, w := range list {
		leases[i] = w.lease
	}
	limited, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	if err := r.Store.ReleaseConsumers(limited, leases); err != nil {
		r.Log.Warn("the leases of consumers could not be released; they expire", "error", err)
	}
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
