package usage

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
)

// beforeAge is for how long what was stored on earlier days is believed.
const beforeAge = time.Minute

// hold waits until nobody else writes or reads totals, and returns how to let
// them.
func (m *Meter) hold(ctx context.Context) (letGo func(), err error) {
	select {
	case m.flushing <- struct{}{}:
		return func() { <-m.flushing }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Flush adds what was counted for tenants to the store, in one act, and reads
// the totals of those with a quota that were asked for. With an error nothing
// is lost: what was not written is at the next Flush.
func (m *Meter) Flush(ctx context.Context) error {
	letGo, err := m.hold(ctx)
	if err != nil {
		return err
	}
	defer letGo()
	return m.flush(ctx, m.counted.take())
}

// catchUp writes and reads a tenant's counts at once if that is still needed
// when it is its turn. It waits for the store no longer than for any write; if
// that fails nothing changes, and the event will hardly be stored either.
func (m *Meter) catchUp(t *tenant, isNeeded func() bool) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	letGo, err := m.hold(ctx)
	if err != nil {
		return
	}
	defer letGo()
	if !isNeeded() {
		return
	}
	if err := m.flush(ctx, []*tenant{t}); err != nil {
		m.log.Warn("a tenant's usage could not be brought up to date", "error", err)
	}
}

// learn reads a tenant's totals unless that was done within the interval. Those
// who wait meanwhile are read with the next: when all sources are loaded anew,
// one wait is that of two reads, however many tenants there are.
func (m *Meter) learn(ctx context.Context, t *tenant) error {
	m.wait(t, 1)
	defer m.wait(t, -1)
	letGo, err := m.hold(ctx)
	if err != nil {
		return err
	}
	defer letGo()
	if m.isFresh(t) {
		return nil
	}
	return m.flush(ctx, m.waiters(t))
}

func (m *Meter) isFresh(t *tenant) bool {
	known := t.total.Load()
	return known != nil && m.now().Sub(known.readAt) < interval
}

// wait notes how many more wait for a tenant's totals.
func (m *Meter) wait(t *tenant, more int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting[t] += more; m.waiting[t] == 0 {
		delete(m.waiting, t)
	}
}

// waiters are a tenant and others whose totals are waited for, each once.
func (m *Meter) waiters(first *tenant) []*tenant {
	const most = 1000 // bounds one read
	m.mu.Lock()
	defer m.mu.Unlock()
	list := []*tenant{first}
	for t := range m.waiting {
		if len(list) == most {
			break
		}
		if t != first && !m.isFresh(t) {
			list = append(list, t)
		}
	}
	return list
}

func (m *Meter) flush(ctx context.Context, list []*tenant) error {
	err := m.write(ctx, list)
	if err == nil {
		err = m.readTotals(ctx, slices.DeleteFunc(slices.Clone(list), func(t *tenant) bool { return !t.watched.Load() }))
	}
	if err != nil {
		for _, t := range list {
			m.counted.add(t)
		}
	}
	return err
}

// write adds what is new of each tenant. The day is looked at after the counts,
// so that none of them is of a later one.
func (m *Meter) write(ctx context.Context, list []*tenant) error {
	reads := make([][2]count, len(list))
	for i, t := range list {
		reads[i] = [2]count{t.counted[0].load(), t.counted[1].load()}
	}
	today := dayOf(m.now())
	sums := map[tenantDay]count{}
	for i, t := range list {
		for _, d := range []day{today - 1, today} {
			if fresh := reads[i][d&1].plus(t.written[d&1].negated()); fresh != (count{}) {
				sums[tenantDay{t.id, d}] = sums[tenantDay{t.id, d}].plus(fresh)
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
	for of, c := range sums {
		list = append(list, eventhook.TenantCount{TenantID: of.tenant, Day: of.day.start(), Events: c.events, Bytes: c.bytes})
	}
	return m.store.AddTenantCounts(ctx, m.slot, list)
}

// readTotals learns what all instances have written for the tenants.
func (m *Meter) readTotals(ctx context.Context, list []*tenant) error {
	if len(list) == 0 {
		return nil
	}
	now := m.now()
	today := dayOf(now)
	if err := m.readBefore(ctx, list, today, now); err != nil {
		return err
	}
	sums, err := m.store.UsageBetween(ctx, today.start(), today.next().start(), idsOf(list))
	if err != nil {
		return err
	}
	for _, t := range list {
		sum := sums[t.id]
		t.total.Store(&total{readAt: now, day: today, events: sum.Events, bytes: t.before.bytes + sum.Bytes, own: t.written})
	}
	return nil
}

// readBefore reads what the tenants keep of earlier days, where that is not
// known or was read long ago.
func (m *Meter) readBefore(ctx context.Context, list []*tenant, today day, now time.Time) error {
	list = slices.DeleteFunc(slices.Clone(list), func(t *tenant) bool {
		return t.before.day == today && now.Sub(t.before.readAt) < beforeAge
	})
	if len(list) == 0 {
		return nil
	}
	sums, err := m.store.UsageBetween(ctx, time.Time{}, today.start(), idsOf(list))
	if err != nil {
		return err
	}
	for _, t := range list {
		t.before = before{today, sums[t.id].Bytes, now}
	}
	return nil
}

// idsOf names each tenant once.
func idsOf(list []*tenant) []eventhook.TenantID {
	seen := make(map[eventhook.TenantID]bool, len(list))
	for _, t := range list {
		seen[t.id] = true
	}
	return slices.Collect(maps.Keys(seen))
}
