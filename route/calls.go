package route

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// Calls go to places outside our database. An event that has some is settled
// twice: at first with what happens in the database, so that this is there at
// once, whatever the others do; then, when its calls were made, with what came
// of them. In between it stays leased. A crash has another instance make those
// calls again that had not succeeded, and nothing else.

// mostCall is how long one call takes, whatever it says of itself.
const mostCall = time.Minute

// lastWrites is how long the outcomes of calls may take to be written when the
// drain has ended.
const lastWrites = 5 * time.Second

func timeout(c effects.Call) time.Duration { return min(max(c.Timeout(), 0), mostCall) }

// reserve has an event stay leased while its calls wait and are made.
func (p *Processor) reserve(s *effects.Settlement, now time.Time) *effects.Settlement {
	for i := range s.Actions {
		if c := s.Actions[i].Effect.Call; c != nil {
			if until := now.Add(p.Lease + timeout(c)); until.After(s.HoldUntil) {
				s.HoldUntil = until
			}
		}
	}
	return s
}

// admit finds out, before events are settled, for whose calls there is room. The
// settle has the others wait, and asks for them again later: one write for both.
func (p *Processor) admit(planned []*effects.Settlement) []*effects.Settlement {
	var refused []*effects.Settlement
	now := p.Now()
	for _, s := range planned {
		if !s.HoldUntil.IsZero() && !p.calls.admit(s) {
			s.HoldUntil = p.calls.later(s, now, p.Lease)
			refused = append(refused, s)
		}
	}
	p.defers(refused, "too many of their tenants' calls wait")
	return planned
}

// defers tells of events whose calls had no room or no time.
func (p *Processor) defers(events []*effects.Settlement, why string) {
	if len(events) == 0 {
		return
	}
	of := map[eventhook.TenantID]int{}
	most := events[0].Event.TenantID
	for _, s := range events {
		if of[s.Event.TenantID]++; of[s.Event.TenantID] > of[most] {
			most = s.Event.TenantID
		}
	}
	p.Observer.Deferred(len(events))
	p.leave(len(events), why, "most_of_tenant", most)
}

// hold passes the events on, of those that were settled, whose calls are still
// to be made, if they were admitted. Of the others that are planned it gives
// the room back.
func (p *Processor) hold(planned, settled []*effects.Settlement) {
	for _, s := range settled {
		if s.Status != eventhook.EventProcessing {
			continue
		}
		s.Event.Lease.Until = s.HoldUntil
		for i := range s.Actions {
			if a := &s.Actions[i]; a.Status != eventhook.ActionPending {
				a.IsSettled, a.Effect = true, effects.Effect{}
			}
		}
		p.calls.put(s)
	}
	p.calls.cancel(planned)
}

// Calls are how many calls wait here for their turn, and how many are under
// way.
func (p *Processor) Calls() (waiting, running int) { return p.calls.counts() }

// makeCalls makes calls, each in its turn, until nobody feeds the lane any more
// and none waits, or working has ended. It returns when nobody feeds it and all
// have ended; those that have not been made then are not.
func (p *Processor) makeCalls(working context.Context, fed <-chan struct{}) {
	var calls sync.WaitGroup
	feeding := fed
	for working.Err() == nil {
		if c, ok := p.calls.take(); ok {
			calls.Go(func() { p.call(working, c) })
			continue
		}
		if feeding == nil && !p.calls.isWaiting() {
			break
		}
		select {
		case <-feeding:
			feeding = nil
		case <-p.calls.moved:
		case <-working.Done():
		}
	}
	<-fed
	calls.Wait()
	p.calls.drop()
}

// call makes a call, unless the lease would end before its outcome is settled.
// A call that is cut off by the end of ctx counts as not made.
func (p *Processor) call(ctx context.Context, c heldCall) {
	defer func() { p.calls.end(c, p.Now()) }()
	most := timeout(c.action.Effect.Call)
	began := p.Now()
	if began.Add(most + p.Lease/4).After(c.of.Event.Lease.Until) {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := p.do(bounded, c)
	took := p.Now().Sub(began)
	switch {
	case err == nil:
		c.action.IsCalled = true
		p.Observer.Called(CallSucceeded, took)
	case ctx.Err() != nil:
		p.Observer.Called(CallCutOff, took)
	default:
		c.action.IsCalled = true
		c.action.Failure, c.action.Permanent, c.action.After = failure(c.action.TargetIndex, err)
		p.Observer.Called(CallFailed, took)
	}
}

// do makes a call. One that panics over what somebody sent must not take the
// process down.
func (p *Processor) do(ctx context.Context, c heldCall) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			p.logPanic(c.of.Event, fmt.Sprintf("route %s target %d", c.action.RouteID, c.action.TargetIndex+1), reason, debug.Stack())
			err = &effects.CallError{Message: errPanicked.Error(), Permanent: true}
		}
	}()
	return c.action.Effect.Call.Do(ctx)
}

// failure is what an action says of a call that failed.
func failure(target int, err error) (text string, permanent bool, after time.Duration) {
	const most = 1000
	if e, ok := errors.AsType[*effects.CallError](err); ok {
		permanent, after = e.Permanent, e.After
	}
	return eventhook.Cut(fmt.Sprintf("target %d: %s", target+1, eventhook.Text(err.Error())), most), permanent, after
}

// settleCalls settles the events whose calls have ended, those together that
// are ready, until done is closed and none is left. What was answered is
// written down even when working has ended.
func (p *Processor) settleCalls(working context.Context, done <-chan struct{}) {
	ctx, cancel := outlasting(working, lastWrites)
	defer cancel()
	for {
		if batch := p.calls.takeEnded(p.config.BatchSize); len(batch) > 0 {
			now := p.Now()
			p.settle(ctx, p.called(batch, now, working.Err() != nil), now)
			p.calls.release(batch)
			continue
		}
		if done == nil {
			return
		}
		select {
		case <-done:
			done = nil
		case <-p.calls.ready:
		}
	}
}

// called has the settlements of events whose calls have ended. Those of which
// some calls were not made are given back with it: when that was for want of
// time, they are asked for again later.
func (p *Processor) called(batch []*heldEvent, now time.Time, stopping bool) []*effects.Settlement {
	settlements := make([]*effects.Settlement, len(batch))
	var late []*effects.Settlement
	for i, h := range batch {
		settlements[i], h.HoldUntil = h.Settlement, now
		if stopping {
			continue
		}
		if h.failLate(); slices.ContainsFunc(h.Actions, isOwed) {
			h.HoldUntil = p.calls.later(h.Settlement, now, p.Lease)
			late = append(late, h.Settlement)
		}
	}
	p.defers(late, "their calls had no turn in time")
	return settlements
}

// isOwed reports whether an action's call is still to be made.
func isOwed(a effects.PlannedAction) bool {
	return a.Effect.Call != nil && !a.IsCalled && a.Failure == ""
}

// failLate has calls for which there was no time fail if others of the event
// have failed: it is retried when those are, and not more often than it may.
func (h *heldEvent) failLate() {
	isFailed := func(a effects.PlannedAction) bool { return a.IsCalled && a.Failure != "" }
	if !slices.ContainsFunc(h.Actions, isFailed) {
		return
	}
	for c := range h.calls {
		c.action.Failure = fmt.Sprintf("target %d: not called: the time was used up by other calls", c.action.TargetIndex+1)
	}
}

// outlasting ends some time after ctx has ended.
func outlasting(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(by):
			cancel()
		case <-longer.Done():
		}
	})
	return longer, func() { stop(); cancel() }
}
