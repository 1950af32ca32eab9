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

// path is how a batch is planned. An event on the quick path gets one slice of steps; an event that
// needs more, or that has large effects, goes to the slow queue and is planned again on the slow
// path.
type path bool

const (
	quickPath path = false // events of the inbox
	slowPath  path = true  // events of the slow queue
)

// batchPlan divides a batch into events that can be settled and events that cannot yet.
type batchPlan struct {
	settlements []*effects.Settlement
	slow        []*eventhook.Event         // for the slow queue
	overShare   []*eventhook.Event         // the tenant's share of evaluation time is used up
	unreached   []*eventhook.Event         // planning stopped before these events
	unreadable  []*eventhook.Event         // their routes, subscriptions or earlier actions could not be read
	err         error                      // the last error that made an event unreadable
	steps       map[eventhook.TenantID]int // steps that each tenant's expressions used
	size        planSize                   // of the settlements
}

// planBatch plans the events of a batch in order. If the routes of one source cannot be read, only
// the events of that source are unreadable. If a read times out, the whole batch is unreadable,
// since other reads would time out, too. planBatch stops before the end of the batch once it has
// taken a quarter of the lease (maxSlowPlanTime on the slow path) or the effects fill a
// transaction: the planned events must be settled in one transaction before their leases expire.
func (p *Processor) planBatch(ctx context.Context, batch []*eventhook.Event, on path) batchPlan {
	prior, err := p.priorActions(ctx, batch)
	if err != nil {
		return batchPlan{unreadable: batch, err: fmt.Errorf("plan: %w", err)}
	}
	limit := p.Lease / 4
	if on == slowPath {
		limit = maxSlowPlanTime
	}
	now := p.Now()
	loading := newLoadBudget(on)
	var m meter.Meter
	planned := batchPlan{settlements: make([]*effects.Settlement, 0, len(batch))}
	failed := map[eventhook.SourceID]bool{}
	for i, e := range batch {
		if p.Now().Sub(now) > limit || planned.size.isFull() {
			planned.unreached = append(planned.unreached, batch[i:]...)
			break
		}
		if failed[e.SourceID] {
			planned.unreadable = append(planned.unreadable, e)
			continue
		}
		program, err := p.programOf(ctx, e, loading)
		switch {
		case errors.Is(err, errLoading) && on == quickPath:
			planned.slow = append(planned.slow, e)
			continue
		case errors.Is(err, errLoading), errors.Is(err, cpushare.ErrBusy):
			p.postponeForShare(&planned, e, p.CPULimiter.Bucket(e.TenantID))
			continue
		}
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return batchPlan{unreadable: batch, err: fmt.Errorf("plan: %w", err)}
		}
		if err != nil {
			failed[e.SourceID] = true
			planned.unreadable, planned.err = append(planned.unreadable, e), fmt.Errorf("plan: %w", err)
			continue
		}
		if ctx.Err() != nil {
			planned.unreached = append(planned.unreached, batch[i:]...)
			break
		}
		p.planEvent(ctx, &m, &planned, planInput{program, e, prior[e.ID], now, on})
	}
	return planned
}

// How long a batch waits for one tenant's routes to be read and compiled. The events of other
// tenants in the batch wait, too.
const (
	maxQuickLoad = 50 * time.Millisecond
	maxSlowLoad  = 500 * time.Millisecond
)

var errLoading = errors.New("the routes of the source are still being read and compiled")

// loadBudget counts how long a batch has waited for the routes of each tenant.
type loadBudget struct {
	max    time.Duration
	waited map[eventhook.TenantID]time.Duration
}

func newLoadBudget(on path) loadBudget {
	limit := maxQuickLoad
	if on == slowPath {
		limit = maxSlowLoad
	}
	return loadBudget{limit, map[eventhook.TenantID]time.Duration{}}
}

// programOf returns the compiled routes of an event's source. It returns errLoading when the batch
// has waited its maximum for the tenant's routes.
func (p *Processor) programOf(ctx context.Context, e *eventhook.Event, l loadBudget) (*Program, error) {
	began := p.Now()
	waiting, cancel := context.WithTimeoutCause(ctx, l.max-l.waited[e.TenantID], errLoading)
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

// planInput is the input of planEvent: an event, its compiled routes and its earlier actions.
type planInput struct {
	program *Program
	event   *eventhook.Event
	prior   []eventhook.Action
	now     time.Time
	path    path
}

// maxQuickSteps limits the steps of a tenant's events in one batch of the quick path, about 10 ms,
// since the events of other tenants wait for the batch.
const maxQuickSteps = 10 * meter.Slice

func (p *batchPlan) addSteps(tenant eventhook.TenantID, steps int) {
	if steps == 0 {
		return
	}
	if p.steps == nil {
		p.steps = map[eventhook.TenantID]int{}
	}
	p.steps[tenant] += steps
}

// slowPathPeriod is how long all events of a source go to the slow queue after one of them needed
// the slow path.
const slowPathPeriod = 10 * time.Second

// planEvent plans one event and adds it to the part of the batch plan that fits the result.
func (p *Processor) planEvent(ctx context.Context, m *meter.Meter, planned *batchPlan, x planInput) {
	e, bucket := x.event, p.CPULimiter.Bucket(x.event.TenantID)
	switch {
	case e.LostLeases > maxLostLeases:
		s := x.program.failLostLeases(e, x.prior)
		p.timePlan(s, p.planStart())
		p.add(planned, s, x.path)
		return
	case x.path == slowPath:
		share, _ := bucket.BeginSlow()
		if share == nil {
			p.postponeForShare(planned, e, bucket)
			return
		}
		m.Reset(ctx, meter.EventLimit, share)
	case x.program.needsScripts(e.EventType) || x.now.UnixNano() < x.program.slowUntil.Load() || planned.steps[e.TenantID] > maxQuickSteps:
		planned.slow = append(planned.slow, e)
		return
	default:
		m.Reset(ctx, meter.Slice, bucket)
	}
	began := p.planStart()
	s := x.program.Settle(m, e, x.prior, x.now)
	var err error
	if p.Fanout != nil && m.Err() == nil {
		err = p.Fanout.Match(ctx, m, s)
	}
	m.Close()
	p.timePlan(s, began)
	planned.addSteps(e.TenantID, m.Steps())
	if x.path == slowPath {
		bucket.RecordSlow(m.Steps())
	}
	switch stopped := m.Err(); {
	case errors.Is(err, eventhook.ErrStalePlan):
		p.evictStale(s)
		planned.slow = append(planned.slow, e)
	case err != nil && stopped == nil: // the subscriptions could not be read
		planned.unreadable, planned.err = append(planned.unreadable, e), err
	case errors.Is(stopped, meter.ErrShare):
		p.postponeForShare(planned, e, bucket)
	case errors.Is(stopped, meter.ErrLimit) && x.path == quickPath:
		x.program.slowUntil.Store(x.now.Add(slowPathPeriod).UnixNano())
		p.CPULimiter.Count(cpushare.Routes, cpushare.Slow)
		planned.slow = append(planned.slow, e)
	case errors.Is(stopped, meter.ErrLimit):
		p.CPULimiter.Count(cpushare.Routes, cpushare.OverLimit)
		p.add(planned, s, x.path)
	case stopped != nil: // ctx ended
		planned.unreached = append(planned.unreached, e)
	default:
		p.add(planned, s, x.path)
	}
}

// planStart returns when planning begins, or the zero time if planning is not traced.
func (p *Processor) planStart() (began time.Time) {
	if p.Traces {
		began = p.Now()
	}
	return began
}

// timePlan sets the time of a settlement's planning, if planning is traced.
func (p *Processor) timePlan(s *effects.Settlement, began time.Time) {
	if p.Traces {
		s.PlanBegan, s.PlanTook = began, p.Now().Sub(began)
	}
}

// postponeForShare postpones an event until the tenant's share has the steps for it.
func (p *Processor) postponeForShare(planned *batchPlan, e *eventhook.Event, bucket *cpushare.Bucket) {
	p.CPULimiter.Count(cpushare.Routes, cpushare.Waited)
	e.NextRetryAt = new(bucket.NextRetry())
	planned.overShare = append(planned.overShare, e)
}

// maxLostLeases is how many leases in a row an event may lose. The limit is well above 1, since an
// instance that is killed also loses the leases of events that did not cause it.
const maxLostLeases = 10

// failLostLeases returns a settlement that counts as a failed attempt, for an event that lost too
// many leases.
func (p *Program) failLostLeases(e *eventhook.Event, prior []eventhook.Action) *effects.Settlement {
	why := fmt.Sprintf("was leased %d times in a row without a result: each time the instance stopped or the lease expired before the event was processed", e.LostLeases)
	return &effects.Settlement{Event: e, Retry: p.retry, Prior: prior, Failure: why}
}

// add adds a settlement to the plan, or on the quick path sends the event to the slow queue if its
// effects are large.
func (p *Processor) add(planned *batchPlan, s *effects.Settlement, on path) {
	if on == quickPath && isHeavy(s) {
		planned.slow = append(planned.slow, s.Event)
		return
	}
	planned.size.add(s)
	planned.settlements = append(planned.settlements, s)
}

// priorActions reads the actions of earlier attempts. An event in its first lease has no such actions
// and is not looked up.
func (p *Processor) priorActions(ctx context.Context, batch []*eventhook.Event) (map[eventhook.EventID][]eventhook.Action, error) {
	var retried []*eventhook.Event
	for _, e := range batch {
		if e.RetryCount > 0 || e.Lease.Token > 1 {
			retried = append(retried, e)
		}
	}
	if len(retried) == 0 {
		return nil, nil
	}
	return p.Queue.EventActions(ctx, retried)
}

// requeueRest queues the events that the plan did not settle, except unreadable ones. Events over
// their tenant's share, and events for which the slow queue has no space, are postponed. Events
// that the plan did not reach return to their queue.
func (p *Processor) requeueRest(ctx context.Context, planned batchPlan, on path) {
	p.postpone(ctx, planned.overShare, "their tenants' shares of time for filters and transforms are used up")
	p.queueSlow(ctx, planned.slow)
	later := p.releaseOldLeases(ctx, planned.unreached)
	if on == slowPath {
		p.slow.putBack(later)
		return
	}
	p.inbox.putBack(later)
}

// queueSlow adds events to the slow queue. Events for which it has no space are postponed.
func (p *Processor) queueSlow(ctx context.Context, events []*eventhook.Event) {
	p.postpone(ctx, p.retryAfterLease(p.slow.put(events)), "the slow queue has no space for more events of their tenants")
}

// releaseOldLeases releases the events of which more than half of the lease has passed, since such a
// lease could expire before the event is settled; any instance may then lease the event again. It
// returns the remaining events. If ctx has ended, it releases none and returns all events, because
// Run releases them.
func (p *Processor) releaseOldLeases(ctx context.Context, events []*eventhook.Event) (fresh []*eventhook.Event) {
	var old []*eventhook.Event
	now := p.Now()
	for _, e := range events {
		if ctx.Err() == nil && e.Lease.Until.Sub(now) < p.Lease/2 {
			old = append(old, e)
			continue
		}
		fresh = append(fresh, e)
	}
	if len(old) > 0 {
		p.releaseEvents(ctx, old)
	}
	return fresh
}
