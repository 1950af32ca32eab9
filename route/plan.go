package route

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/effects"
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
	settlements []*effects.Settlement
	slow        []*eventhook.Event         // for the slow lane
	busy        []*eventhook.Event         // whose tenant's share is used up
	later       []*eventhook.Event         // not come to
	unread      []*eventhook.Event         // whose routes or earlier actions could not be read
	err         error                      // why
	used        map[eventhook.TenantID]int // steps of the tenants' expressions
	load        load                       // of the settlements
}

// plan matches a batch. A source that answers with an error costs only its own
// events; one that does not answer in time stops the plan, as the others would
// not either. A plan that takes long, or makes much, ends before the rest of the
// batch: what is planned must be settled while its lease holds, in one
// transaction.
func (p *Processor) plan(ctx context.Context, batch []*eventhook.Event, l lane) plan {
	prior, err := p.priorActions(ctx, batch)
	if err != nil {
		return plan{unread: batch, err: fmt.Errorf("plan: %w", err)}
	}
	most := p.Lease / 4
	if l == slowly {
		most = slowTime
	}
	now := p.Now()
	loading := newLoading(l)
	var m meter.Meter
	made := plan{settlements: make([]*effects.Settlement, 0, len(batch))}
	failed := map[eventhook.SourceID]bool{}
	for i, e := range batch {
		if p.Now().Sub(now) > most || made.load.isFull() {
			made.later = append(made.later, batch[i:]...)
			break
		}
		if failed[e.SourceID] {
			made.unread = append(made.unread, e)
			continue
		}
		program, err := p.programOf(ctx, e, loading)
		switch {
		case errors.Is(err, errLoading) && l == quickly:
			made.slow = append(made.slow, e)
			continue
		case errors.Is(err, errLoading), errors.Is(err, cpushare.ErrBusy):
			p.wait(&made, e, p.Shares.Bucket(e.TenantID))
			continue
		}
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return plan{unread: batch, err: fmt.Errorf("plan: %w", err)}
		}
		if err != nil {
			failed[e.SourceID] = true
			made.unread, made.err = append(made.unread, e), fmt.Errorf("plan: %w", err)
			continue
		}
		if ctx.Err() != nil {
			made.later = append(made.later, batch[i:]...)
			break
		}
		p.planEvent(ctx, &m, &made, eventPlan{program, e, prior[e.ID], now, l})
	}
	return made
}

// How long a batch waits for a tenant's routes to be read and compiled, while the
// events of others wait for the batch.
const (
	quickLoading = 50 * time.Millisecond
	slowLoading  = 500 * time.Millisecond
)

var errLoading = errors.New("the routes of the source are still being read and compiled")

// loading is how long one batch has waited.
type loading struct {
	most   time.Duration
	waited map[eventhook.TenantID]time.Duration
}

func newLoading(l lane) loading {
	most := quickLoading
	if l == slowly {
		most = slowLoading
	}
	return loading{most, map[eventhook.TenantID]time.Duration{}}
}

// programOf returns the compiled routes of an event's source. The error is
// errLoading when the batch has waited long enough for the tenant's routes.
func (p *Processor) programOf(ctx context.Context, e *eventhook.Event, l loading) (*Program, error) {
	began := p.Now()
	waiting, cancel := context.WithTimeoutCause(ctx, l.most-l.waited[e.TenantID], errLoading)
	defer cancel()
	program, err := p.programs.Get(waiting, programKey{e.TenantID, e.SourceID})
	if took := p.Now().Sub(began); took > 0 {
		l.waited[e.TenantID] += took
	}
	if err != nil && errors.Is(context.Cause(waiting), errLoading) {
		return nil, errLoading
	}
	return program, err
}

// eventPlan is what planEvent works with.
type eventPlan struct {
	program *Program
	event   *eventhook.Event
	prior   []eventhook.Action
	now     time.Time
	lane    lane
}

// mostQuick is how many steps a tenant's events may take in one batch of the
// quick lane, about 10 ms: the events of others wait for the batch.
const mostQuick = 10 * meter.Slice

func (p *plan) use(tenant eventhook.TenantID, steps int) {
	if steps == 0 {
		return
	}
	if p.used == nil {
		p.used = map[eventhook.TenantID]int{}
	}
	p.used[tenant] += steps
}

// slowFor is how long the events of a source go to the slow lane at once, after
// one of them needed it.
const slowFor = 10 * time.Second

// planEvent adds one event to a plan, if it is for this lane and the tenant's
// share has time for it.
func (p *Processor) planEvent(ctx context.Context, m *meter.Meter, made *plan, x eventPlan) {
	e, share := x.event, p.Shares.Bucket(x.event.TenantID)
	switch {
	case e.LostLeases > mostLostLeases:
		p.add(made, x.program.giveUp(e, x.prior), x.lane)
		return
	case x.lane == slowly:
		lent, _ := share.BeginSlow()
		if lent == nil {
			p.wait(made, e, share)
			return
		}
		m.Reset(ctx, meter.EventLimit, lent)
	case x.program.needsScripts(e.EventType) || x.now.UnixNano() < x.program.slowUntil.Load() || made.used[e.TenantID] > mostQuick:
		made.slow = append(made.slow, e)
		return
	default:
		m.Reset(ctx, meter.Slice, share)
	}
	s := x.program.Settle(m, e, x.prior, x.now)
	var err error
	if p.Fanout != nil && m.Err() == nil {
		err = p.Fanout.Match(ctx, m, s)
	}
	m.Close()
	made.use(e.TenantID, m.Steps())
	if x.lane == slowly {
		share.RecordSlow(m.Steps())
	}
	switch stopped := m.Err(); {
	case errors.Is(err, eventhook.ErrStalePlan):
		p.renew(s)
		made.slow = append(made.slow, e)
	case err != nil && stopped == nil: // the subscriptions cannot be read
		made.unread, made.err = append(made.unread, e), err
	case errors.Is(stopped, meter.ErrShare):
		p.wait(made, e, share)
	case errors.Is(stopped, meter.ErrLimit) && x.lane == quickly:
		x.program.slowUntil.Store(x.now.Add(slowFor).UnixNano())
		p.Shares.Count(cpushare.Routes, cpushare.Slow)
		made.slow = append(made.slow, e)
	case errors.Is(stopped, meter.ErrLimit):
		p.Shares.Count(cpushare.Routes, cpushare.OverLimit)
		p.add(made, s, x.lane)
	case stopped != nil: // working has ended
		made.later = append(made.later, e)
	default:
		p.add(made, s, x.lane)
	}
}

// wait has an event wait until the tenant's share has time for it.
func (p *Processor) wait(made *plan, e *eventhook.Event, share *cpushare.Bucket) {
	p.Shares.Count(cpushare.Routes, cpushare.Waited)
	e.NextRetryAt = new(share.NextRetry())
	made.busy = append(made.busy, e)
}

// mostLostLeases is how many leases in a row an event may lose. Instances that
// are killed lose leases of events that are not to blame.
const mostLostLeases = 10

// giveUp settles an event whose leases were lost too often as a failed try.
func (p *Program) giveUp(e *eventhook.Event, prior []eventhook.Action) *effects.Settlement {
	why := fmt.Sprintf("was leased %d times in a row without an outcome: each time the instance ended or the lease ran out before the event was processed", e.LostLeases)
	return &effects.Settlement{Event: e, Retry: p.retry, Prior: prior, Failure: why}
}

// add adds a settlement to a plan, unless it is too heavy for this lane.
func (p *Processor) add(made *plan, s *effects.Settlement, l lane) {
	if l == quickly && isHeavy(s) {
		made.slow = append(made.slow, s.Event)
		return
	}
	made.load.add(s)
	made.settlements = append(made.settlements, s)
}

// priorActions reads the actions of earlier tries. An event that was leased once has
// had none, and costs nothing.
func (p *Processor) priorActions(ctx context.Context, batch []*eventhook.Event) (map[eventhook.EventID][]eventhook.Action, error) {
	var again []*eventhook.Event
	for _, e := range batch {
		if e.RetryCount > 0 || e.Lease.Token > 1 {
			again = append(again, e)
		}
	}
	if len(again) == 0 {
		return nil, nil
	}
	return p.Queue.EventActions(ctx, again)
}

// passOn hands over what a plan has not settled, but for what could not be
// read. Events whose tenant's share is used up, or has too many events in the
// slow lane, are given back for later; events that the plan did not reach wait
// for their turn.
func (p *Processor) passOn(ctx context.Context, made plan, l lane) {
	p.postpone(ctx, made.busy, "their tenants' shares of time for filters and transforms are used up")
	p.putSlow(ctx, made.slow)
	later := p.inTime(ctx, made.later)
	if l == slowly {
		p.slow.putBack(later)
		return
	}
	p.inbox.putBack(later)
}

// putSlow passes events on to the slow lane. Events for which it has no room are
// given back for later.
func (p *Processor) putSlow(ctx context.Context, events []*eventhook.Event) {
	p.postpone(ctx, p.later(p.slow.put(events)), "too many of their tenants' are slow, or make much")
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
	if len(old) > 0 {
		p.release(ctx, old)
	}
	return inTime
}
