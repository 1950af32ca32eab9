package route

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/eventhook/eventhook"
)

// pace is how much time filters and transforms may take: the burst, and of
// what passes one part of so many.
type pace struct {
	burst time.Duration
	part  int
}

// A source's routes may take half of one worker's time, and all of a tenant's
// sources together as much as one worker has.
var (
	paceOfSource = pace{2 * time.Second, 2}
	paceOfTenant = pace{4 * time.Second, 1}
)

// unhurried is how much a source's filters may have taken lately and still
// count as quick.
const unhurried = 100 * time.Millisecond

// allowance is the time that filters and transforms may still take. Events
// wait when it is used up, so that others' do not. Safe for concurrent use; a
// new one is full.
type allowance struct {
	pace
	mu    sync.Mutex
	spent time.Duration
	at    time.Time
}

// spend notes that time was taken until a moment.
func (a *allowance) spend(d time.Duration, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refill(now)
	a.spent += d
}

// hasSpent reports whether, at a moment, more than some time is spent.
func (a *allowance) hasSpent(more time.Duration, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refill(now)
	return a.spent > more
}

func (a *allowance) refill(now time.Time) {
	if passed := now.Sub(a.at); passed > 0 {
		a.spent, a.at = max(0, a.spent-passed/time.Duration(a.part)), now
	}
}

// allowances keeps what is used of them while routes change. A source has its
// own, and a share in its tenant's: what is slow in one source costs neither
// the tenant's others nor other tenants, however many sources are slow.
type allowances struct {
	sources *lru.Cache[eventhook.SourceID, *allowance]
	tenants *lru.Cache[eventhook.TenantID, *allowance]
}

func newAllowances(size int) allowances {
	sources, err := lru.New[eventhook.SourceID, *allowance](size)
	if err != nil {
		panic(err) // the size is a positive number of ours
	}
	tenants, _ := lru.New[eventhook.TenantID, *allowance](size)
	return allowances{sources, tenants}
}

// share is what an event's routes may take.
type share struct{ source, tenant *allowance }

func (a allowances) of(e *eventhook.Event) share {
	return share{kept(a.sources, e.SourceID, paceOfSource), kept(a.tenants, e.TenantID, paceOfTenant)}
}

func kept[K comparable](cache *lru.Cache[K, *allowance], key K, p pace) *allowance {
	fresh := &allowance{pace: p}
	if known, ok, _ := cache.PeekOrAdd(key, fresh); ok {
		cache.Get(key) // in use
		return known
	}
	return fresh
}

func (s share) spend(d time.Duration, now time.Time) {
	s.source.spend(d, now)
	s.tenant.spend(d, now)
}

// isUsedUp reports whether the events of the source should wait.
func (s share) isUsedUp(now time.Time) bool {
	return s.source.hasSpent(s.source.burst, now) || s.tenant.hasSpent(s.tenant.burst, now)
}
