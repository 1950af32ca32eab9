// Package usage counts what tenants store, sources receive and subscribers are
// sent, and refuses what
// exceeds a tenant's quota. Counting is a few atomic additions in memory: it
// reads no database, takes no lock that waits for one, and has no row that all
// requests write. Each instance adds what it has counted to the database once a
// second, and learns there what the others have.
//
// An instance alone keeps to a quota exactly. Of others it learns late: what
// they accept reaches the database within a second and this instance within
// another. But none lets through more than a fiftieth of a quota, or 10 events
// or 1 MiB where that is more, before it writes and reads once more at once. So
// a tenant can store more than its quota by two percent, or 10 events or 1 MiB,
// for each instance but one. A crash forgets what was counted since the last write: a second of events.
package usage

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/eventhook/eventhook"
)

// Store sums up the counts of all instances. The Count methods add all of
// their counts or, with an error, none; a tenant's day, and a source's or a
// subscription's span, occurs in them once. slot keeps instances apart: any may use any, and those
// that use one wait for each other.
type Store interface {
	AddTenantCounts(ctx context.Context, slot int, counts []eventhook.TenantCount) error
	AddSourceCounts(ctx context.Context, slot int, counts []eventhook.SourceCount) error
	AddSubscriptionCounts(ctx context.Context, slot int, counts []eventhook.SubscriptionCount) error
	// UsageBetween sums up what each tenant has stored on the days from one
	// until before another, as far as it is kept. Who has nothing is left out.
	UsageBetween(ctx context.Context, from, until time.Time, tenants []eventhook.TenantID) (map[eventhook.TenantID]eventhook.TenantCount, error)
}

// Slots is how many slots there are.
const Slots = 16

// Meter counts for one instance. It holds what has counts to write, and the
// tenants that were opened last; nothing else.
type Meter struct {
	store Store
	slot  int
	log   *slog.Logger
	now   func() time.Time

	tenants  *lru.Cache[eventhook.TenantID, *tenant]
	flushing chan struct{} // holds one while counts are written or totals read

	counted  due[*tenant]
	received due[*source]
	mu       sync.Mutex
	failed   map[eventhook.SourceID]int64
	sent     map[span]eventhook.SubscriptionCount
	waiting  map[*tenant]int // how many wait for a tenant's totals
}

// New makes a meter that remembers up to size tenants which are idle; Run
// writes down what it counts.
func New(size int, store Store, log *slog.Logger, now func() time.Time) *Meter {
	tenants, err := lru.New[eventhook.TenantID, *tenant](size)
	if err != nil {
		panic(err) // the size is a positive number of ours
	}
	return &Meter{store: store, slot: rand.IntN(Slots), log: log, now: now, //nolint:gosec // unlike others', not secret
		tenants: tenants, flushing: make(chan struct{}, 1), failed: map[eventhook.SourceID]int64{},
		sent: map[span]eventhook.SubscriptionCount{}, waiting: map[*tenant]int{}}
}

// Open returns the account of a source: ask for it when the source is loaded,
// not for each request. Its quota is the one that s has. If there is one, what
// the tenant has used so far is read first, unless it was within the last
// second; the error is then the store's.
func (m *Meter) Open(ctx context.Context, s eventhook.Source) (*Account, error) {
	return m.open(ctx, &Account{meter: m, quota: s.Quota, tenant: m.tenant(s.TenantID), source: &source{id: s.ID}})
}

// OpenTenant returns the account of what a tenant publishes, as Open does that
// of a source.
func (m *Meter) OpenTenant(ctx context.Context, t eventhook.Tenant) (*Account, error) {
	return m.open(ctx, &Account{meter: m, quota: t.Quota, tenant: m.tenant(t.ID)})
}

func (m *Meter) open(ctx context.Context, a *Account) (*Account, error) {
	if a.quota == (eventhook.Quota{}) {
		return a, nil
	}
	a.tenant.watched.Store(true)
	return a, m.learn(ctx, a.tenant)
}

// tenant is the one that all accounts of a tenant share. One that was forgotten
// while it had accounts goes on counting beside the new one, and they hear of
// each other as of another instance.
func (m *Meter) tenant(id eventhook.TenantID) *tenant {
	fresh := &tenant{id: id}
	if known, ok, _ := m.tenants.PeekOrAdd(id, fresh); ok {
		m.tenants.Get(id) // in use
		return known
	}
	return fresh
}

const (
	// interval is how often tenants' counts are written and their totals read:
	// it decides how far a quota can be exceeded.
	interval = time.Second
	// sourcesEvery is how many intervals pass between two writes of sources'
	// counts, which only people read.
	sourcesEvery = 10
	writeTimeout = 5 * time.Second
)

// Run writes the counts down until ctx ends, and then what is left: end it
// after the last request. A write that has begun is not cut off. What cannot be
// written is kept and tried again; if it was written and the answer was lost,
// it counts twice. Run it once.
func (m *Meter) Run(ctx context.Context) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			m.try(ctx, "the tenants' usage could not be brought up to date", m.Flush)
			m.try(ctx, "the sources' usage could not be brought up to date", m.FlushSources)
			m.try(ctx, "the subscriptions' statistics could not be brought up to date", m.FlushSubscriptions)
			return nil
		case <-tick.C:
		}
		m.try(ctx, "the tenants' usage could not be brought up to date; trying again", m.Flush)
		m.try(ctx, "the subscriptions' statistics could not be brought up to date; trying again", m.FlushSubscriptions)
		if n%sourcesEvery == 0 {
			m.try(ctx, "the sources' usage could not be brought up to date; trying again", m.FlushSources)
		}
	}
}

func (m *Meter) try(ctx context.Context, complaint string, flush func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if err := flush(ctx); err != nil {
		m.log.Warn(complaint, "error", err)
	}
}
