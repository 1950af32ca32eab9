package route

import (
	"context"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/backoff"
	"github.com/eventhook/eventhook/internal/effects"
)

// process plans a batch, settles it and requeues the events that were not settled. If the routes of
// only some sources cannot be read, process postpones the events of these sources. If no event of
// the batch can be read, process retries with backoff until the leases expire or ctx ends.
func (p *Processor) process(ctx context.Context, batch []*eventhook.Event, on path) {
	began := p.Now()
	for pauses := backoff.ForDatabase(); len(batch) > 0; {
		planned := p.planBatch(ctx, batch, on)
		if len(planned.settlements) > 0 {
			p.settle(ctx, planned.settlements, began)
		}
		p.requeueRest(ctx, planned, on)
		if len(planned.unreadable) > 0 && len(planned.unreadable) < len(batch) && ctx.Err() == nil {
			// The database can be read. Only these sources have a problem, so no worker waits for them.
			p.postpone(ctx, p.retryAfterLease(planned.unreadable), "the routes of their sources cannot be read", "error", planned.err)
			return
		}
		batch = planned.unreadable
		if len(batch) > 0 && !p.waitToRetry(ctx, pauses.Next(), "plan", batch, planned.err) {
			return
		}
	}
}

// settle stores settlements and retries with backoff on an error. Stale settlements go to the slow
// queue, to be planned again.
func (p *Processor) settle(ctx context.Context, settlements []*effects.Settlement, began time.Time) {
	lost, err := p.Queue.SettleEvents(ctx, settlements)
	for pauses := backoff.ForDatabase(); err != nil; {
		if !p.waitToRetry(ctx, pauses.Next(), "settle", eventsOf(settlements), err) {
			return
		}
		lost, err = p.Queue.SettleEvents(ctx, settlements)
	}
	settled := without(settlements, lost)
	var stale []*eventhook.Event
	lost = slices.DeleteFunc(lost, func(s *effects.Settlement) bool {
		if s.IsStale {
			p.evictStale(s)
			stale = append(stale, s.Event)
		}
		return s.IsStale
	})
	p.queueSlow(ctx, stale)
	for _, s := range lost {
		p.Log.Warn("an event's lease expired before the event was settled; the holder of the next lease processes it",
			"event", s.Event.ID, "trace_id", s.Event.Trace())
	}
	p.Observer.Settled(settled, len(lost), p.Now().Sub(began))
}

// evictStale counts a stale plan, and evicts the compiled routes from which it was made, unless
// newer routes are already cached.
func (p *Processor) evictStale(s *effects.Settlement) {
	p.Observer.Stale()
	key := programKey{s.Event.TenantID, s.Event.SourceID}
	if program, err := p.programs.Peek(key); err == nil && program.generation <= s.Generation {
		p.programs.Invalidate(key)
	}
}

func without(all, lost []*effects.Settlement) []*effects.Settlement {
	if len(lost) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(s *effects.Settlement) bool { return slices.Contains(lost, s) })
}

func eventsOf(settlements []*effects.Settlement) []*eventhook.Event {
	events := make([]*eventhook.Event, len(settlements))
	for i, s := range settlements {
		events[i] = s.Event
	}
	return events
}

// waitToRetry waits before a batch is retried and reports whether to retry it. It reports false if
// all leases have expired, since another instance may then process the events, or if ctx has ended.
// If ctx has ended, waitToRetry puts the batch back into the inbox, from which Run releases it.
// operation names what failed in the log.
func (p *Processor) waitToRetry(ctx context.Context, wait time.Duration, operation string, batch []*eventhook.Event, err error) bool {
	if ctx.Err() == nil && p.isAnyLeased(batch) {
		p.Log.Warn("cannot "+operation+" a batch; trying again", "events", len(batch), "error", err)
		if backoff.Sleep(ctx, wait) {
			return true
		}
	}
	if ctx.Err() != nil {
		p.inbox.putBack(batch)
		return false
	}
	p.Log.Warn("the leases of a batch expired before it was settled", "events", len(batch), "error", err)
	return false
}

// isAnyLeased reports whether at least one event is still leased.
func (p *Processor) isAnyLeased(batch []*eventhook.Event) bool {
	now := p.Now()
	for _, e := range batch {
		if !now.After(e.Lease.Until) {
			return true
		}
	}
	return false
}
