// Package usage counts the events that tenants store and publish, that sources receive and
// that are delivered to subscriptions, and refuses events that exceed a tenant's quota.
//
// Counting takes a few atomic additions in memory: no database read, no lock that waits for
// the database, and no row that every request updates. Each instance adds its counts to the
// database once a second and then reads the totals of all instances.
//
// A single instance enforces a quota exactly. With several instances, an event of another
// instance is known after up to two seconds: one until it is written and one until it is
// read. To limit the overrun, an instance that has accepted more than a fiftieth of a quota
// since its last read (at least 10 events or 1 MiB) writes and reads at once. So a tenant
// can exceed its quota by two percent, or by 10 events or 1 MiB if that is more, for each
// instance beyond the first.
//
// If a write fails, the counts stay in memory and are written later. Meanwhile a quota is checked against the
// totals that were read last, and the counts of this instance. A crash loses the
// counts since the last write, which is about a second, and two for the counts of minutes.
package usage

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/eventhook/eventhook"
)

// Store adds up the counts of all instances. Each Add method adds all of its counts or, if it
// returns an error, none. A pair of tenant and day, or of source or subscription and span,
// occurs once in counts, and so does the traffic of a resource within a span. Calls with the same slot wait for each other's row locks, so each
// instance picks a slot below Slots at random.
type Store interface {
	AddTenantCounts(ctx context.Context, slot int, counts []eventhook.TenantCount) error
	AddSourceCounts(ctx context.Context, slot int, counts []eventhook.SourceCount) error
	AddSubscriptionCounts(ctx context.Context, slot int, counts []eventhook.SubscriptionCount) error
	AddTraffic(ctx context.Context, slot int, counts []eventhook.TrafficCount) error
	// UsageBetween returns the events and bytes that each tenant stored on the days from
	// (inclusive) to until (exclusive). Events whose bodies were deleted do not count. The
	// result omits tenants without usage.
	UsageBetween(ctx context.Context, from, until time.Time, tenants []eventhook.TenantID) (map[eventhook.TenantID]eventhook.TenantCount, error)
}

// Slots is the number of slots of a Store.
const Slots = 16

// Meter counts for one instance. It keeps the unwritten counts and caches the tenants whose
// accounts were opened last. It is safe for concurrent use.
type Meter struct {
	store Store
	slot  int
	log   *slog.Logger
	now   func() time.Time

	tenants   *lru.Cache[eventhook.TenantID, *tenant]
	flushSlot chan struct{} // holds a token while counts are written or totals read
	// noSyncUntil is the time in Unix nanoseconds until which syncNow does nothing.
	noSyncUntil atomic.Int64

	dueTenants dueList[*tenant]
	dueSources dueList[*source]
	dueTallies dueList[*tally]

	mu         sync.Mutex
	failed     map[eventhook.SourceID]int64 // events
	deliveries map[span]eventhook.SubscriptionCount
	traffic    map[trafficKey]*eventhook.Traffic
	waiting    map[*tenant]int // number of callers that wait for the totals of a tenant
}

// New returns a Meter that caches up to size tenants. Run writes its counts.
func New(size int, store Store, log *slog.Logger, now func() time.Time) *Meter {
	tenants, err := lru.New[eventhook.TenantID, *tenant](size)
	if err != nil {
		panic(err) // callers pass a validated, positive size
	}
	return &Meter{store: store, slot: rand.IntN(Slots), log: log, now: now, //nolint:gosec // not a secret
		tenants: tenants, flushSlot: make(chan struct{}, 1), failed: map[eventhook.SourceID]int64{},
		deliveries: map[span]eventhook.SubscriptionCount{}, traffic: map[trafficKey]*eventhook.Traffic{}, waiting: map[*tenant]int{}}
}

// Open returns the account of a source with the quota in s. Call it when the source is
// loaded, not for each request. If s has a quota, Open reads the usage of the tenant, unless
// that was done within the last second, and may return the error of the store.
func (m *Meter) Open(ctx context.Context, s eventhook.Source) (*Account, error) {
	return m.open(ctx, &Account{meter: m, quota: s.Quota, tenant: m.tenant(s.TenantID), source: &source{id: s.ID},
		tally: &tally{of: eventhook.TrafficOf{TenantID: s.TenantID, SourceID: s.ID}}})
}

// OpenTenant returns the account for the events that a tenant publishes. It is otherwise like
// Open.
func (m *Meter) OpenTenant(ctx context.Context, t eventhook.Tenant) (*Account, error) {
	return m.open(ctx, &Account{meter: m, quota: t.Quota, tenant: m.tenant(t.ID),
		tally: &tally{of: eventhook.TrafficOf{TenantID: t.ID}}})
}

func (m *Meter) open(ctx context.Context, a *Account) (*Account, error) {
	if a.quota == (eventhook.Quota{}) {
		return a, nil
	}
	a.tenant.hasQuota.Store(true)
	return a, m.readNow(ctx, a.tenant)
}

// tenant returns the cached tenant, which all of its accounts share. If a tenant is evicted
// while it has accounts, it continues to count beside its successor; the two then know of
// each other's counts only through the database, like two instances.
func (m *Meter) tenant(id eventhook.TenantID) *tenant {
	fresh := &tenant{id: id}
	if known, ok, _ := m.tenants.PeekOrAdd(id, fresh); ok {
		m.tenants.Get(id) // marks it as recently used
		return known
	}
	return fresh
}

const (
	// interval is the time between two flushes of tenants. It determines how far a quota can
	// be exceeded.
	interval = time.Second
	// intervalsPerSourceFlush is the number of intervals between two flushes of sources, whose
	// counts are only displayed.
	intervalsPerSourceFlush = 10
	// intervalsPerTrafficFlush is the number of intervals between two flushes of the counts of minutes.
	intervalsPerTrafficFlush = 2
	writeTimeout             = 5 * time.Second
)

// Run writes the counts until ctx ends, and then once more; cancel ctx after the last
// request. The end of ctx does not cancel a write that has begun. A failed write is retried;
// if the store had committed it and only the response was lost, its counts are added twice.
// The error is always nil. Call Run once.
func (m *Meter) Run(ctx context.Context) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			m.try(ctx, "the usage of tenants could not be written", m.Flush)
			m.try(ctx, "the usage of sources could not be written", m.FlushSources)
			m.try(ctx, "the statistics of subscriptions could not be written", m.FlushSubscriptions)
			m.try(ctx, "the counts of minutes could not be written", m.FlushTraffic)
			return nil
		case <-tick.C:
		}
		m.try(ctx, "the usage of tenants could not be written and will be retried", m.Flush)
		m.try(ctx, "the statistics of subscriptions could not be written and will be retried", m.FlushSubscriptions)
		if n%intervalsPerTrafficFlush == 0 {
			m.try(ctx, "the counts of minutes could not be written and will be retried", m.FlushTraffic)
		}
		if n%intervalsPerSourceFlush == 0 {
			m.try(ctx, "the usage of sources could not be written and will be retried", m.FlushSources)
		}
	}
}

func (m *Meter) try(ctx context.Context, message string, flush func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if err := flush(ctx); err != nil {
		m.log.Warn(message, "error", err)
	}
}
