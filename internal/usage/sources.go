package usage

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// source is what this instance has counted for a source.
type source struct {
	id      eventhook.SourceID
	events  atomic.Int64 // as a tenant's
	isDue   atomic.Bool
	written int64 // the flushing one's
}

func (s *source) mark() *atomic.Bool { return &s.isDue }

// Settled counts the events of a batch whose first try has failed. Those whose
// retries were started anew count again. What the batch has published counts as
// stored by its tenant, and is never refused.
func (m *Meter) Settled(batch []*effects.Settlement) {
	for _, s := range batch {
		for i := range s.Actions {
			if a := &s.Actions[i]; a.Effect.Publication != nil && a.Status == eventhook.ActionSuccess {
				m.published(s.Event.TenantID, len(a.Effect.Publication.Data))
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

func (m *Meter) published(id eventhook.TenantID, bytes int) {
	t := m.tenant(id)
	t.counted[dayOf(m.now())&1].add(count{1, int64(bytes)})
	m.counted.add(t)
}

// FlushSources adds what was counted for sources to the store, in one act. With
// an error nothing is lost.
func (m *Meter) FlushSources(ctx context.Context) error {
	letGo, err := m.hold(ctx)
	if err != nil {
		return err
	}
	defer letGo()
	list, failed := m.received.take(), m.takeFailed()
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
			m.received.add(s)
		}
		m.giveBack(failed)
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

func (m *Meter) takeFailed() map[eventhook.SourceID]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := m.failed
	m.failed = map[eventhook.SourceID]int64{}
	return taken
}

func (m *Meter) giveBack(failed map[eventhook.SourceID]int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, n := range failed {
		m.failed[id] += n
	}
}
