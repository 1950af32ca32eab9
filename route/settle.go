package route

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
)

// Pauses before a batch is tried again.
const (
	firstPause = 50 * time.Millisecond
	mostPause  = 2 * time.Second
)

// process plans and settles a batch. What could not be settled is given back
// when ctx has ended, and left to its leases when they have run out.
func (p *Processor) process(ctx context.Context, batch []*eventhook.Event) {
	began := p.Now()
	for wait := firstPause; ; wait = min(2*wait, mostPause) {
		settlements, left, err := p.plan(ctx, batch)
		if len(settlements) > 0 {
			p.settle(ctx, settlements, began)
		}
		if len(left) == 0 {
			return
		}
		if len(left) < len(batch) && ctx.Err() == nil {
			// Others were planned, so this is about these sources only: nobody
			// waits for them.
			p.Log.Warn("events are left to their leases", "events", len(left), "error", err)
			return
		}
		batch = left
		if !p.pause(ctx, wait, batch, err) {
			return
		}
	}
}

// settle writes settlements down.
func (p *Processor) settle(ctx context.Context, settlements []*eventhook.Settlement, began time.Time) {
	lost, err := p.Queue.SettleEvents(ctx, settlements)
	for wait := firstPause; err != nil; wait = min(2*wait, mostPause) {
		if !p.pause(ctx, wait, eventsOf(settlements), err) {
			return
		}
		lost, err = p.Queue.SettleEvents(ctx, settlements)
	}
	for _, s := range lost {
		p.Log.Warn("an event's lease ran out before it was settled; whoever holds it now processes it", "event", s.Event.ID)
	}
	p.Observer.Settled(without(settlements, lost), len(lost), p.Now().Sub(began))
}

func without(all, lost []*eventhook.Settlement) []*eventhook.Settlement {
	if len(lost) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(s *eventhook.Settlement) bool { return slices.Contains(lost, s) })
}

func eventsOf(settlements []*eventhook.Settlement) []*eventhook.Event {
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
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-ctx.Done():
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

var errTooSlow = errors.New("plan: filters and transforms took a quarter of the lease")

// plan matches a batch. It returns the events whose routes or earlier actions
// could not be read, and why. A source that answers with an error costs only
// its own events; one that does not answer in time stops the plan, as the
// others would not either. Events whose source has used up its time are left
// to their leases, and so are those that a plan which takes long does not get
// to: what is planned must be settled while its lease holds.
func (p *Processor) plan(ctx context.Context, batch []*eventhook.Event) (settlements []*eventhook.Settlement, left []*eventhook.Event, err error) {
	done, err := p.doneActions(ctx, batch)
	if err != nil {
		return nil, batch, fmt.Errorf("plan: %w", err)
	}
	now := p.Now()
	settlements = make([]*eventhook.Settlement, 0, len(batch))
	failed := map[eventhook.SourceID]bool{}
	waiting := 0
	for i, e := range batch {
		if p.Now().Sub(now) > p.Lease/4 {
			left, err = append(left, batch[i:]...), errTooSlow
			break
		}
		if failed[e.SourceID] {
			left = append(left, e)
			continue
		}
		program, cause := p.programs.Get(ctx, e.SourceID)
		if errors.Is(cause, context.DeadlineExceeded) || errors.Is(cause, context.Canceled) {
			return nil, batch, fmt.Errorf("plan: %w", cause)
		}
		if cause != nil {
			failed[e.SourceID] = true
			left, err = append(left, e), fmt.Errorf("plan: %w", cause)
			continue
		}
		if program.IsBusy() {
			waiting++
			continue
		}
		settlements = append(settlements, program.Settle(e, done[e.ID], now))
	}
	if waiting > 0 {
		p.Log.Warn("events wait for their leases to end: the filters and transforms of their sources have used up their time", "events", waiting)
	}
	return settlements, left, err
}

// doneActions reads what earlier tries have done. An event that was leased
// once has had none, and costs nothing.
func (p *Processor) doneActions(ctx context.Context, batch []*eventhook.Event) (map[eventhook.EventID][]eventhook.Action, error) {
	var again []eventhook.EventID
	for _, e := range batch {
		if e.RetryCount > 0 || e.Lease.Token > 1 {
			again = append(again, e.ID)
		}
	}
	if len(again) == 0 {
		return nil, nil
	}
	return p.Queue.DoneActions(ctx, again)
}
