package usage

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventhook/eventhook"
)

// day is a day in UTC: the number of days since 1970-01-01.
type day int64

func dayOf(t time.Time) day { return day(t.Unix() / int64(24*60*60)) }

func (d day) next() day        { return d + 1 }
func (d day) start() time.Time { return time.Unix(int64(d)*24*60*60, 0).UTC() }

// count is a number of events and their bytes.
type count struct{ events, bytes int64 }

func (c count) plus(o count) count { return count{c.events + o.events, c.bytes + o.bytes} }
func (c count) negated() count     { return count{-c.events, -c.bytes} }

// counter is a count for concurrent use.
type counter struct{ events, bytes atomic.Int64 }

func (c *counter) load() count { return count{c.events.Load(), c.bytes.Load()} }

func (c *counter) add(n count) count { return count{c.events.Add(n.events), c.bytes.Add(n.bytes)} }

// tenant has the counts of this instance for a tenant, and the totals of all instances that
// were read last.
type tenant struct {
	id eventhook.TenantID
	// counted has a counter for even and one for odd days, because around midnight two days
	// are counted at once. Flushes do not reset it: they write the difference to written,
	// so that an event that is counted during a write is neither lost nor written twice.
	counted  [2]counter
	total    atomic.Pointer[total] // nil until an account with a quota is opened
	hasQuota atomic.Bool           // an account with a quota was opened: flushes read total
	isDue    atomic.Bool           // in Meter.dueTenants

	// Guarded by Meter.flushSlot:
	written     [2]count
	earlierDays earlierDays
}

func (t *tenant) due() *atomic.Bool { return &t.isDue }

// total is the sum of the counts that all instances had written when it was read.
type total struct {
	readAt time.Time
	day    day
	events int64    // of that day
	bytes  int64    // of all days
	own    [2]count // tenant.written at readAt: the part of this instance
}

// earlierDays is the number of bytes stored on the days before a day. It changes only when
// bodies are deleted or an instance writes late, so it is read at most once in
// earlierDaysMaxAge.
type earlierDays struct {
	before day
	bytes  int64
	readAt time.Time
}

// used returns the events of the current day d and the bytes of all days that all instances
// are known to have stored. own is the count of this instance for d.
func (t *tenant) used(d day, own count) count {
	known := t.total.Load()
	otherDay := (d + 1) & 1
	unsyncedToday := known.own[d&1].negated().plus(own)
	unsyncedOther := known.own[otherDay].negated().plus(t.counted[otherDay].load())
	used := count{unsyncedToday.events, known.bytes + unsyncedToday.bytes + unsyncedOther.bytes}
	if known.day == d {
		used.events += known.events
	}
	return used
}

// dueList lists the tenants or sources that have unwritten counts, each once. Their due flag
// is set. Sources that are not listed are only referenced by their accounts.
type dueList[T interface{ due() *atomic.Bool }] struct {
	mu   sync.Mutex
	list []T
}

// add adds v unless it is listed. For each v it locks mu only once between two flushes.
func (d *dueList[T]) add(v T) {
	if v.due().Load() || v.due().Swap(true) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, v)
}

// take empties the list. The caller must read the counts after take: a tenant or source that
// counts later is listed again.
func (d *dueList[T]) take() []T {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.list
	d.list = nil
	for _, v := range list {
		v.due().Store(false)
	}
	return list
}
