package usage

import (
	"time"

	"github.com/eventhook/eventhook"
)

// Account is what events are counted on: one source's, on the source and its
// tenant with its quota; those that a tenant publishes, on the tenant alone. It
// is made for many requests and safe for concurrent use. A nil one counts
// nothing and refuses nothing.
type Account struct {
	meter  *Meter
	quota  eventhook.Quota
	tenant *tenant
	source *source // nil: what a tenant publishes
}

// Excess tells which quota an event does not fit into.
type Excess struct {
	Quota string // as the API names it
	// ResetsAt is the next midnight, UTC: a new day begins, and the oldest
	// bodies may go.
	ResetsAt time.Time
}

// The names of quotas.
const (
	EventsPerDay = "max_events_per_day"
	StorageBytes = "max_storage_bytes"
)

// Take counts an event of some bytes, to be called just before it is stored, or
// tells which quota it does not fit into, and counts nothing. at is the
// present. However many ask at once, no more are let through than fit into what
// this instance knows to be left; one that is refused may, while it is, stand
// in the way of a smaller one.
func (a *Account) Take(bytes int, at time.Time) *Excess {
	if a == nil {
		return nil
	}
	d := dayOf(at)
	own := a.add(d, count{1, int64(bytes)})
	over := a.exceeded(d, own)
	if over == "" && a.isAhead(d, own) {
		a.meter.catchUp(a.tenant, func() bool { return a.isAhead(d, a.tenant.counted[d&1].load()) })
		over = a.exceeded(d, own)
	}
	if over == "" {
		return nil
	}
	a.Return(bytes, at)
	return &Excess{Quota: over, ResetsAt: d.next().start()}
}

// Return takes back what Take has counted, with the same arguments: the event
// was not stored.
func (a *Account) Return(bytes int, at time.Time) {
	if a != nil {
		a.add(dayOf(at), count{1, int64(bytes)}.negated())
	}
}

// exceeded names the quota that the tenant exceeds when this instance has
// counted own for the day, "" if none.
func (a *Account) exceeded(d day, own count) string {
	if a.quota == (eventhook.Quota{}) {
		return "" // and nothing is known
	}
	used := a.tenant.used(d, own)
	switch {
	case a.quota.MaxEventsPerDay != nil && used.events > *a.quota.MaxEventsPerDay:
		return EventsPerDay
	case a.quota.MaxStorageBytes != nil && used.bytes > *a.quota.MaxStorageBytes:
		return StorageBytes
	}
	return ""
}

// isAhead reports whether this instance has let through more since it last
// heard of the others than it may on its own: a fiftieth of the quota, at least
// 10 events and 1 MiB.
func (a *Account) isAhead(d day, own count) bool {
	const share, fewest, least = 50, 10, 1 << 20
	known := a.tenant.total.Load()
	if a.quota == (eventhook.Quota{}) || known == nil {
		return false
	}
	fresh := known.own[d&1].negated().plus(own)
	return a.quota.MaxEventsPerDay != nil && fresh.events > max(*a.quota.MaxEventsPerDay/share, fewest) ||
		a.quota.MaxStorageBytes != nil && fresh.bytes > max(*a.quota.MaxStorageBytes/share, least)
}

// add counts, and only then asks to be flushed, and what is left to be read: a
// flush that it need not ask for reads its count. It returns what is counted of
// the day, which many who add at once see one after the other.
func (a *Account) add(d day, c count) count {
	now := a.tenant.counted[d&1].add(c)
	if a.source != nil {
		a.source.events.Add(c.events)
	}
	a.meter.counted.add(a.tenant)
	if a.source != nil {
		a.meter.received.add(a.source)
	}
	return now
}
