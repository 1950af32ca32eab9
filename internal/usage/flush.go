package usage

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
)

// earlierDaysMaxAge is how long the bytes stored on earlier days are cached.
const earlierDaysMaxAge = time.Minute

// acquireFlush waits until no other goroutine writes counts or reads totals. If err is nil,
// the caller must call release.
func (m *Meter) acquireFlush(ctx context.Context) (release func(), err error) {
	select {
	case m.flushSlot <- struct{}{}:
		return func() { <-m.flushSlot }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Flush writes the counts of tenants in one call of the store and reads the totals of the
// written tenants that have a quota. If it returns an error, no count is lost: the next
// Flush writes the remaining counts.
func (m *Meter) Flush(ctx context.Context) error {
	release, err := m.acquireFlush(ctx)
	if err != nil {
		return err
	}
	defer release()
	return m.flush(ctx, m.dueTenants.take())
}

// syncNow writes the counts of a tenant and reads its totals, if isNeeded still returns true
// after the running flush has ended. It waits up to writeTimeout. If it fails, nothing
// changes. It does nothing for failedPause after a flush has failed: a log may accept events while the
// database is down, and they must not wait for it.
func (m *Meter) syncNow(t *tenant, isNeeded func() bool) {
	if m.isPaused() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	release, err := m.acquireFlush(ctx)
	if err != nil {
		return
	}
	defer release()
	if !isNeeded() || m.isPaused() { // the flush for which this call waited has failed
		return
	}
	if err := m.flush(ctx, []*tenant{t}); err != nil {
		m.log.Warn("the usage of a tenant could not be written", "error", err)
	}
}

// failedPause is how long events do not wait for the database after a flush has failed. The next flush of Run
// has failed before it ends.
const failedPause = 2 * writeTimeout

func (m *Meter) isPaused() bool { return m.now().UnixNano() < m.noSyncUntil.Load() }

// readNow reads the totals of a tenant unless they were read within the interval. It also
// reads the totals of the other waiting tenants: when all sources are reloaded at once, each
// waits for at most two reads, for any number of tenants.
func (m *Meter) readNow(ctx context.Context, t *tenant) error {
	m.addWaiting(t, 1)
	defer m.addWaiting(t, -1)
	release, err := m.acquireFlush(ctx)
	if err != nil {
		return err
	}
	defer release()
	if m.isFresh(t) {
		return nil
	}
	return m.flush(ctx, m.waitingTenants(t))
}

// isFresh reports whether the totals of a tenant were read within the interval.
func (m *Meter) isFresh(t *tenant) bool {
	known := t.total.Load()
	return known != nil && m.now().Sub(known.readAt) < interval
}

// addWaiting adds n to the number of callers that wait for the totals of a tenant.
func (m *Meter) addWaiting(t *tenant, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting[t] += n; m.waiting[t] == 0 {
		delete(m.waiting, t)
	}
}

// waitingTenants returns first and up to 999 other tenants for whose totals callers wait.
func (m *Meter) waitingTenants(first *tenant) []*tenant {
	const maxTenants = 1000 // of one read
	m.mu.Lock()
	defer m.mu.Unlock()
	list := []*tenant{first}
	for t := range m.waiting {
		if len(list) == maxTenants {
			break
		}
		if t != first && !m.isFresh(t) {
			list = append(list, t)
		}
	}
	return list
}

// flush writes the counts of the tenants and reads the totals of tenants with a quota. If it
// fails, the tenants are due again, and syncNow pauses. The caller must have acquired the flush.
func (m *Meter) flush(ctx context.Context, list []*tenant) error {
	err := m.write(ctx, list)
	if err == nil {
		err = m.readTotals(ctx, slices.DeleteFunc(slices.Clone(list), func(t *tenant) bool { return !t.hasQuota.Load() }))
	}
	if err != nil {
		m.noSyncUntil.Store(m.now().Add(failedPause).UnixNano())
		for _, t := range list {
			m.dueTenants.add(t)
		}
	}
	return err
}

// write writes the events that each tenant has counted since its last write. It reads the
// clock after the counters, so that no count belongs to a later day than today.
func (m *Meter) write(ctx context.Context, list []*tenant) error {
	reads := make([][2]count, len(list))
	for i, t := range list {
		reads[i] = [2]count{t.counted[0].load(), t.counted[1].load()}
	}
	today := dayOf(m.now())
	sums := map[tenantDay]count{}
	for i, t := range list {
		for _, d := range []day{today - 1, today} {
			if unwritten := reads[i][d&1].plus(t.written[d&1].negated()); unwritten != (count{}) {
				sums[tenantDay{t.id, d}] = sums[tenantDay{t.id, d}].plus(unwritten)
			}
		}
	}
	if err := m.writeTenants(ctx, sums); err != nil {
		return err
	}
	for i, t := range list {
		t.written = reads[i]
	}
	return nil
}

type tenantDay struct {
	tenant eventhook.TenantID
	day    day
}

func (m *Meter) writeTenants(ctx context.Context, sums map[tenantDay]count) error {
	if len(sums) == 0 {
		return nil
	}
	list := make([]eventhook.TenantCount, 0, len(sums))
	for key, c := range sums {
		list = append(list, eventhook.TenantCount{TenantID: key.tenant, Day: key.day.start(), Events: c.events, Bytes: c.bytes})
	}
	return m.store.AddTenantCounts(ctx, m.slot, list)
}

// readTotals reads the sums of all instances for the tenants.
func (m *Meter) readTotals(ctx context.Context, list []*tenant) error {
	if len(list) == 0 {
		return nil
	}
	now := m.now()
	today := dayOf(now)
	if err := m.readEarlierDays(ctx, list, today, now); err != nil {
		return err
	}
	sums, err := m.store.UsageBetween(ctx, today.start(), today.next().start(), idsOf(list))
	if err != nil {
		return err
	}
	for _, t := range list {
		sum := sums[t.id]
		t.total.Store(&total{readAt: now, day: today, events: sum.Events, bytes: t.earlierDays.bytes + sum.Bytes, own: t.written})
	}
	return nil
}

// readEarlierDays reads the bytes that the tenants stored before today, unless they were read
// within earlierDaysMaxAge.
func (m *Meter) readEarlierDays(ctx context.Context, list []*tenant, today day, now time.Time) error {
	list = slices.DeleteFunc(slices.Clone(list), func(t *tenant) bool {
		return t.earlierDays.before == today && now.Sub(t.earlierDays.readAt) < earlierDaysMaxAge
	})
	if len(list) == 0 {
		return nil
	}
	sums, err := m.store.UsageBetween(ctx, time.Time{}, today.start(), idsOf(list))
	if err != nil {
		return err
	}
	for _, t := range list {
		t.earlierDays = earlierDays{today, sums[t.id].Bytes, now}
	}
	return nil
}

// idsOf returns the id of each tenant once.
func idsOf(list []*tenant) []eventhook.TenantID {
	seen := make(map[eventhook.TenantID]bool, len(list))
	for _, t := range list {
		seen[t.id] = true
	}
	return slices.Collect(maps.Keys(seen))
}
