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

// The bounds of an event that is planned before it is stored. Its sender waits for
// the plan, and the events of its batch wait for its effects.
const (
	mostArriving   = 64 << 10 // bytes of the body
	arrivingSteps  = meter.Slice
	arrivingRows   = 100     // that the event may make
	arrivingEffect = 1 << 20 // bytes that the event may make
)

// PlanArrival plans an event before it is stored, if that is cheap and certain: the
// routes and subscriptions are in memory and of one generation, no script runs, no
// promise is settled, no action fails, and the plan is small. Else it returns nil, and
// the event is to be stored for the processor. It waits for nothing, and takes no more
// than about a millisecond. It does not change the event. Safe for concurrent use.
func (p *Processor) PlanArrival(e *eventhook.Event) *effects.Settlement {
	if p.config.Workers == 0 || len(e.Body) > mostArriving {
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
	m.Reset(context.Background(), arrivingSteps, p.Shares.Bucket(e.TenantID))
	s := program.Settle(m, e, nil, now)
	isMatched := p.Fanout == nil || m.Err() == nil && p.Fanout.MatchNow(m, s)
	m.Close()
	if errors.Is(m.Err(), meter.ErrLimit) {
		program.slowUntil.Store(now.Add(slowFor).UnixNano())
		p.Shares.Count(cpushare.Routes, cpushare.Slow)
	}
	if m.Err() != nil || !isMatched || !isCertain(s) {
		return nil
	}
	return s
}

var arrivalMeters = sync.Pool{New: func() any { return &meter.Meter{} }}

// isCertain reports whether a plan's actions all succeed whatever the database says,
// but for keys that are taken, and are few enough to be stored with their event.
func isCertain(s *effects.Settlement) bool {
	for i := range s.Actions {
		if a := &s.Actions[i]; a.Failure != "" || a.Effect.Promise != nil {
			return false
		}
	}
	return s.Rows() <= arrivingRows && s.EffectBytes <= arrivingEffect && !isHeavy(s)
}

// Planned hears which events were stored together with their plans, and which plans
// the database refused or found stale.
func (p *Processor) Planned(batch []*effects.Arrival, plans []*effects.Settlement) {
	now := p.Now()
	var settled []*effects.Settlement
	for i, s := range plans {
		switch a := batch[i]; {
		case s == nil:
		case a.IsPlanned():
			settled = append(settled, s)
		case s.IsStale:
			p.renew(s)
		case a.Plan == nil: // refused: the next ones of its source are planned apart
			if program, err := p.programs.Peek(programKey{a.Event.TenantID, a.Event.SourceID}); err == nil {
				program.slowUntil.Store(now.Add(slowFor).UnixNano())
			}
		}
	}
	if len(settled) > 0 {
		p.Observer.Planned(settled)
	}
}
