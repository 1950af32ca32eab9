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

// learn reads a tenant's totals unless that was done within the interval.
func (m *Meter) learn(ctx context.Context, t *tenant) error {
	letGo, err := m.hold(ctx)
	if err != nil {
		return err
	}
	defer letGo()
	if known := t.total.Load(); known != nil && m.now().Sub(known.readAt) < interval {
		return nil
	}
	return m.flush(ctx, []*tenant{t})
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
	return m.store.CountTenants(ctx, m.slot, list)
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
