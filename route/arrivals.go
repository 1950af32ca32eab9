package route

import (
	"context"
	"errors"
	"sync"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/meter"
)

// Limits of an event that is planned before it is stored. Its sender waits for the plan, and the
// other events of its batch wait until its effects are written.
const (
	maxArrivalBytes       = 64 << 10 // bytes of the body
	arrivalSteps          = meter.Slice
	maxArrivalRows        = 100     // rows that the event's effects write
	maxArrivalEffectBytes = 1 << 20 // bytes that the event's effects write
)

// PlanArrival plans an event before it is stored, if the plan is cheap and cannot fail: the routes
// and subscriptions are in memory and of one generation, no script runs, no promise is settled, no
// action fails, and the effects are within the limits above. Otherwise it returns nil, and the
// processor plans the event after it was stored. PlanArrival does no I/O, takes at most about a
// millisecond, and does not change the event. It is safe for concurrent use.
func (p *Processor) PlanArrival(e *eventhook.Event) *effects.Settlement {
	if p.config.Workers == 0 || len(e.Body) > maxArrivalBytes {
		return nil
	}
	program, err := p.programs.Peek(programKey{e.TenantID, e.SourceID})
	if err != nil || program.isForProcessor(e.EventType) {
		return nil
	}
	now := p.Now()
	if now.UnixNano() < program.slowUntil.Load() {
		return nil
	}
	m, _ := arrivalMeters.Get().(*meter.Meter)
	defer arrivalMeters.Put(m)
	m.Reset(context.Background(), arrivalSteps, p.CPULimiter.Bucket(e.TenantID))
	s := program.Settle(m, e, nil, now)
	isMatched := p.Fanout == nil || m.Err() == nil && p.Fanout.MatchNow(m, s)
	m.Close()
	if errors.Is(m.Err(), meter.ErrLimit) {
		program.slowUntil.Store(now.Add(slowPathPeriod).UnixNano())
		p.CPULimiter.Count(cpushare.Routes, cpushare.Slow)
	}
	if m.Err() != nil || !isMatched || !isCertain(s) {
		return nil
	}
	p.timePlan(s, now)
	return s
}

var arrivalMeters = sync.Pool{New: func() any { return &meter.Meter{} }}

// isCertain reports whether no action of a plan can fail, whatever the state of the database, and
// the effects are small enough to be stored with their event. An action whose key is already
// claimed is skipped, which is not a failure.
func isCertain(s *effects.Settlement) bool {
	for i := range s.Actions {
		if a := &s.Actions[i]; a.Failure != "" || a.Effect.Promise != nil {
			return false
		}
	}
	return s.Rows() <= maxArrivalRows && s.EffectBytes <= maxArrivalEffectBytes && !isHeavy(s)
}

// Planned must be called with each batch of arrivals after it was stored. It passes the plans that
// were stored with their events to the Observer. If a plan was stale, its routes are read again. If
// the database refused a plan, the next events of its source go to the slow queue.
func (p *Processor) Planned(batch []*effects.Arrival) {
	now := p.Now()
	var settled []*effects.Settlement
	for _, a := range batch {
		switch {
		case a.Plan == nil:
		case a.IsPlanned():
			settled = append(settled, a.Plan)
		case a.Plan.IsStale:
			p.evictStale(a.Plan)
		case a.IsPlanRefused:
			if program, err := p.programs.Peek(programKey{a.Event.TenantID, a.Event.SourceID}); err == nil {
				program.slowUntil.Store(now.Add(slowPathPeriod).UnixNano())
			}
		}
	}
	if len(settled) > 0 {
		p.Observer.Planned(settled)
	}
}
