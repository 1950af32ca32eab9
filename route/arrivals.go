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

// PlanArrival plans an event before it is stored. It returns nil, and the processor plans the event
// after it was stored, unless the plan is cheap and cannot fail: the routes and subscriptions are
// in memory and of one generation, no script runs, no promise is settled, no action fails, and the
// effects are within the limits above. PlanArrival does no I/O, takes at most about a millisecond,
// and does not change the event. It is safe for concurrent use.
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
	return s
}

var arrivalMeters = sync.Pool{New: func() any { return &meter.Meter{} }}

// isCertain reports whether all actions of a plan succeed whatever the database holds (an action
// whose key is taken is skipped, which is no failure), and whether the effects are small enough to
// be stored with their event.
func isCertain(s *effects.Settlement) bool {
	for i := range s.Actions {
		if a := &s.Actions[i]; a.Failure != "" || a.Effect.Promise != nil {
			return false
		}
	}
	return s.Rows() <= maxArrivalRows && s.EffectBytes <= maxArrivalEffectBytes && !isHeavy(s)
}

// Planned reports which events were stored together with their plans. For each plan that the
// database refused, the next events of the source go to the slow queue. For each stale plan, the
// routes are read again.
func (p *Processor) Planned(batch []*effects.Arrival, plans []*effects.Settlement) {
	now := p.Now()
	var settled []*effects.Settlement
	for i, s := range plans {
		switch a := batch[i]; {
		case s == nil:
		case a.IsPlanned():
			settled = append(settled, s)
		case s.IsStale:
			p.evictStale(s)
		case a.Plan == nil: // the database refused it
			if program, err := p.programs.Peek(programKey{a.Event.TenantID, a.Event.SourceID}); err == nil {
				program.slowUntil.Store(now.Add(slowPathPeriod).UnixNano())
			}
		}
	}
	if len(settled) > 0 {
		p.Observer.Planned(settled)
	}
}
