package usage

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// source has the counts of this instance for a source.
type source struct {
	id      eventhook.SourceID
	events  atomic.Int64 // never reset, like tenant.counted
	isDue   atomic.Bool  // in Meter.dueSources
	written int64        // of events; guarded by Meter.flushSlot
}

func (s *source) due() *atomic.Bool { return &s.isDue }

// Settled counts the events of a settled batch that failed at their first attempt. A
// reprocessed event begins with a first attempt again, so it can count again. Settled also
// counts the events that the batch published as events stored by their tenant; no quota refuses
// them. It counts the events that have reached a final status.
func (m *Meter) Settled(batch []*effects.Settlement) {
	m.noteSettled(batch)
	for _, s := range batch {
		for i := range s.Actions {
			if a := &s.Actions[i]; a.Effect.Publication != nil && a.Status == eventhook.ActionSuccess {
				m.countPublished(s.Event.TenantID, len(a.Effect.Publication.Data))
			}
		}
		failed := s.Status == eventhook.EventFailed || s.Status == eventhook.EventDead
		if failed && s.Event.RetryCount == 0 && !s.Event.SourceID.IsZero() {
			m.mu.Lock()
			m.failed[s.Event.SourceID]++
			m.mu.Unlock()
		}
	}
}

func (m *Meter) countPublished(id eventhook.TenantID, bytes int) {
	t := m.tenant(id)
	t.counted[dayOf(m.now())&1].add(count{1, int64(bytes)})
	m.dueTenants.add(t)
}

// FlushSources writes the counts of sources in one call of the store. If it returns an
// error, no count is lost.
func (m *Meter) FlushSources(ctx context.Context) error {
	release, err := m.acquireFlush(ctx)
	if err != nil {
		return err
	}
	defer release()
	list, failed := m.dueSources.take(), m.takeFailed()
	reads := make([]int64, len(list))
	sums := make(map[eventhook.SourceID]eventhook.SourceCount, len(list))
	at := m.now().UTC().Truncate(eventhook.SourceCountSpan)
	for i, s := range list {
		reads[i] = s.events.Load()
		sums[s.id] = eventhook.SourceCount{SourceID: s.id, At: at, Events: sums[s.id].Events + reads[i] - s.written}
	}
	for id, n := range failed {
		sums[id] = eventhook.SourceCount{SourceID: id, At: at, Events: sums[id].Events, Failed: n}
	}
	if err := m.writeSources(ctx, slices.Collect(maps.Values(sums))); err != nil {
		for _, s := range list {
			m.dueSources.add(s)
		}
		m.restoreFailed(failed)
		return err
	}
	for i, s := range list {
		s.written = reads[i]
	}
	return nil
}

func (m *Meter) writeSources(ctx context.Context, counts []eventhook.SourceCount) error {
	counts = slices.DeleteFunc(counts, func(c eventhook.SourceCount) bool { return c.Events == 0 && c.Failed == 0 })
	if len(counts) == 0 {
		return nil
	}
	return m.store.AddSourceCounts(ctx, m.slot, counts)
}

// takeFailed returns the failed events by source and resets them.
func (m *Meter) takeFailed() map[eventhook.SourceID]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := m.failed
	m.failed = map[eventhook.SourceID]int64{}
	return taken
}

func (m *Meter) restoreFailed(failed map[eventhook.SourceID]int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, n := range failed {
		m.failed[id] += n
	}
}
