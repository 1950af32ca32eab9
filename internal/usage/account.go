package usage

import (
	"time"

	"github.com/eventhook/eventhook"
)

// Account counts events and checks them against the quota of a tenant. The account of a
// source counts for the source and its tenant; the account of a tenant, for events that the
// tenant publishes, counts for the tenant alone. An Account is used for many requests and is
// safe for concurrent use. A nil Account counts nothing and refuses nothing.
type Account struct {
	meter  *Meter
	quota  eventhook.Quota
	tenant *tenant
	source *source // nil for the events that a tenant publishes
	tally  *tally
}

// Excess says which quota an event would exceed.
type Excess struct {
	Quota string // EventsPerDay or StorageBytes
	// ResetsAt is the next midnight in UTC: a new day begins, and the oldest bodies may be
	// deleted.
	ResetsAt time.Time
}

// The names of quotas, as in the API.
const (
	EventsPerDay = "max_events_per_day"
	StorageBytes = "max_storage_bytes"
)

// Take counts an event of the given size in bytes and returns nil. If the event exceeds a
// quota, Take counts nothing and returns the excess. Call it just before the event is
// stored, with the current time, and call Return if storing fails.
//
// Concurrent calls never let more events pass than fit into the rest of the quota that this
// instance knows. While Take is refusing an event, it may also refuse a smaller one that
// would fit.
func (a *Account) Take(bytes int, at time.Time) *Excess {
	if a == nil {
		return nil
	}
	d := dayOf(at)
	own := a.add(d, count{1, int64(bytes)})
	over := a.exceeded(d, own)
	if over == "" && a.needsSync(d, own) {
		a.meter.syncNow(a.tenant, func() bool { return a.needsSync(d, a.tenant.counted[d&1].load()) })
		over = a.exceeded(d, own)
	}
	if over == "" {
		return nil
	}
	a.Return(bytes, at)
	return &Excess{Quota: over, ResetsAt: d.next().start()}
}

// Return undoes a successful Take with the same arguments, because the event was not stored.
func (a *Account) Return(bytes int, at time.Time) {
	if a != nil {
		a.add(dayOf(at), count{1, int64(bytes)}.negated())
	}
}

// exceeded returns the quota that the tenant exceeds, or "". own is the count of this
// instance for the day.
func (a *Account) exceeded(d day, own count) string {
	if a.quota == (eventhook.Quota{}) {
		return "" // tenant.total is nil then
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

// needsSync reports whether this instance must read the totals of all instances again: since it
// last read them, it has counted more than a fiftieth of the quota, and more than 10 events or
// 1 MiB.
func (a *Account) needsSync(d day, own count) bool {
	const quotaFraction, minEvents, minBytes = 50, 10, 1 << 20
	known := a.tenant.total.Load()
	if a.quota == (eventhook.Quota{}) || known == nil {
		return false
	}
	unsynced := known.own[d&1].negated().plus(own)
	return a.quota.MaxEventsPerDay != nil && unsynced.events > max(*a.quota.MaxEventsPerDay/quotaFraction, minEvents) ||
		a.quota.MaxStorageBytes != nil && unsynced.bytes > max(*a.quota.MaxStorageBytes/quotaFraction, minBytes)
}

// add adds c to the counts of the day d and returns the count of the tenant for that day;
// concurrent calls see different counts. It marks tenant and source as due after it has
// counted: if they are marked already, the pending flush has not read the counts yet and
// includes c.
func (a *Account) add(d day, c count) count {
	now := a.tenant.counted[d&1].add(c)
	if a.source != nil {
		a.source.events.Add(c.events)
	}
	a.tally.received.Add(c.events)
	a.meter.dueTallies.add(a.tally)
	a.meter.dueTenants.add(a.tenant)
	if a.source != nil {
		a.meter.dueSources.add(a.source)
	}
	return now
}
