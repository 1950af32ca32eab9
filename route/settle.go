package route

import (
	"context"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/backoff"
	"github.com/eventhook/eventhook/internal/effects"
)

// process plans a batch, settles it and passes on what is for later or for
// another lane. What could not be settled is given back when ctx has ended,
// and left to its leases when they have run out.
func (p *Processor) process(ctx context.Context, batch []*eventhook.Event, l lane) {
	began := p.Now()
	for pauses := backoff.ForDatabase(); len(batch) > 0; {
		made := p.plan(ctx, batch, l)
		if len(made.settlements) > 0 {
			p.settle(ctx, made.settlements, began)
		}
		p.passOn(ctx, made, l)
		if len(made.unread) > 0 && len(made.unread) < len(batch) && ctx.Err() == nil {
			// The routes of other sources were read: their events do not wait.
			p.postpone(ctx, p.later(made.unread), "the routes of their sources cannot be read", "error", made.err)
			return
		}
		batch = made.unread
		if len(batch) > 0 && !p.pause(ctx, pauses.Next(), batch, made.err) {
			return
		}
	}
}

// settle stores settlements. Stale ones go to the slow lane, to be planned again.
func (p *Processor) settle(ctx context.Context, settlements []*effects.Settlement, began time.Time) {
	lost, err := p.Queue.SettleEvents(ctx, settlements)
	for pauses := backoff.ForDatabase(); err != nil; {
		if !p.pause(ctx, pauses.Next(), eventsOf(settlements), err) {
			return
		}
		lost, err = p.Queue.SettleEvents(ctx, settlements)
	}
	settled := without(settlements, lost)
	var stale []*eventhook.Event
	lost = slices.DeleteFunc(lost, func(s *effects.Settlement) bool {
		if s.IsStale {
			p.renew(s)
			stale = append(stale, s.Event)
		}
		return s.IsStale
	})
	p.putSlow(ctx, stale)
	for _, s := range lost {
		p.Log.Warn("an event's lease ran out before it was settled; whoever holds it now processes it", "event", s.Event.ID)
	}
	p.Observer.Settled(settled, len(lost), p.Now().Sub(began))
}

// renew drops the compiled routes that a stale plan was made by, unless they are newer
// already.
func (p *Processor) renew(s *effects.Settlement) {
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

// pause waits before a batch is tried again, and reports false when that is
// useless: all its leases have run out, so that others may have it, or ctx
// has ended, when the batch goes back to the inbox to be given back.
func (p *Processor) pause(ctx context.Context, wait time.Duration, batch []*eventhook.Event, err error) bool {
	if ctx.Err() == nil && p.leased(batch) {
		p.Log.Warn("cannot settle a batch; trying again", "events", len(batch), "error", err)
		if backoff.Sleep(ctx, wait) {
			return true
		}
	}
	if ctx.Err() != nil {
		p.inbox.putBack(batch)
		return false
	}
	p.Log.Warn("a batch is left to its lease", "events", len(batch), "error", err)
	return false
}

// leased reports whether the lease of any of the events still holds.
func (p *Processor) leased(batch []*eventhook.Event) bool {
	now := p.Now()
	for _, e := range batch {
		if !now.After(e.Lease.Until) {
			return true
		}
	}
	return false
}
