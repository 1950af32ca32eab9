package route

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/meter"
)

// lane is how a batch is planned.
type lane bool

const (
	quickly lane = false // what is slow, or makes much, goes to the slow lane
	slowly  lane = true  // it comes from there
)

// plan is what becomes of a batch.
type plan struct {
	settlements []*eventhook.Settlement
	slow        []*eventhook.Event // for the slow lane
	busy        []*eventhook.Event // whose tenant or source has used up its time
	later       []*eventhook.Event // not come to
	unread      []*eventhook.Event // whose routes or earlier actions could not be read
	err         error              // why
	load        load               // of the settlements
}

// plan matches a batch. A source that answers with an error costs only its own
// events; one that does not answer in time stops the plan, as the others would
// not either. A plan that takes long, or makes much, ends before the rest of the
// batch: what is planned must be settled while its lease holds, in one
// transaction.
func (p *Processor) plan(ctx context.Context, batch []*eventhook.Event, l lane) plan {
	done, err := p.doneActions(ctx, batch)
	if err != nil {
		return plan{unread: batch, err: fmt.Errorf("plan: %w", err)}
	}
	most := p.Lease / 4
	if l == slowly {
		most = slowTime
	}
	now := p.Now()
	made := plan{settlements: make([]*eventhook.Settlement, 0, len(batch))}
	failed := map[eventhook.SourceID]bool{}
	for i, e := range batch {
		if p.Now().Sub(now) > most || made.load.isFull() {
			made.later = batch[i:]
			break
		}
		if failed[e.SourceID] {
			made.unread = append(made.unread, e)
			continue
		}
		program, err := p.programs.Get(ctx, e.SourceID)
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return plan{unread: batch, err: fmt.Errorf("plan: %w", err)}
		}
		if err != nil {
			failed[e.SourceID] = true
			made.unread, made.err = append(made.unread, e), fmt.Errorf("plan: %w", err)
			continue
		}
		p.planEvent(&made, program, e, done[e.ID], now, l)
	}
	return made
}

// planEvent adds one event to a plan, if it is for this lane and now.
func (p *Processor) planEvent(made *plan, program *Program, e *eventhook.Event, done []eventhook.Action, now time.Time, l lane) {
	if !program.thinks {
		p.add(made, program.Settle(meter.New(context.Background(), meter.EventLimit, nil), e, done, now), now, l)
		return
	}
	began, share := p.Now(), p.allowances.of(e)
	switch {
	case share.isUsedUp(began):
		made.busy = append(made.busy, e)
	case l == quickly && (program.runsScripts || share.source.hasSpent(unhurried, began)):
		made.slow = append(made.slow, e)
	default:
		p.add(made, program.Settle(meter.New(context.Background(), meter.EventLimit, nil), e, done, now), now, l)
		end := p.Now()
		share.spend(end.Sub(began), end)
	}
}

// add adds a settlement to a plan, unless it is too heavy for this lane.
func (p *Processor) add(made *plan, s *eventhook.Settlement, now time.Time, l lane) {
	if l == quickly && isHeavy(s) {
		made.slow = append(made.slow, s.Event)
		return
	}
	made.load.add(s)
	made.settlements = append(made.settlements, p.reserve(s, now))
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

// passOn hands over what a plan has not settled, but for what could not be
// read. Who has used up his time, or has too much in the slow lane, waits for
// his leases to end; what was only not come to waits for its turn.
func (p *Processor) passOn(ctx context.Context, made plan, l lane) {
	p.leave(len(made.busy), "the filters and transforms of their sources have used up their time")
	p.leave(len(p.slow.put(made.slow)), "too many of their tenants' are slow, or make much")
	later := p.inTime(ctx, made.later)
	if l == slowly {
		p.slow.putBack(later)
		return
	}
	p.inbox.putBack(later)
}

// inTime gives back the events whose leases are half over, which may end
// before they are settled: somebody, this instance perhaps, leases them anew.
// It returns the others; all, when ctx has ended and all are given back soon.
func (p *Processor) inTime(ctx context.Context, events []*eventhook.Event) (inTime []*eventhook.Event) {
	var old []*eventhook.Event
	now := p.Now()
	for _, e := range events {
		if ctx.Err() == nil && e.Lease.Until.Sub(now) < p.Lease/2 {
			old = append(old, e)
			continue
		}
		inTime = append(inTime, e)
	}
	if len(old) == 0 {
		return inTime
	}
	if err := p.Queue.ReleaseEvents(ctx, old); err != nil {
		p.Log.Warn("events are given back only when their leases run out", "events", len(old), "error", err)
	}
	return inTime
}
