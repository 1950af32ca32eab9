package outbound

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/outbound/match"
)

// EffectStore stores events with their effects, each batch in one transaction; see
// route.Queue and ingest.Store.
type EffectStore interface {
	Accept(ctx context.Context, batch []*effects.Arrival) error
	SettleEvents(ctx context.Context, batch []*effects.Settlement) (unsettled []*effects.Settlement, err error)
}

// Fanout makes the deliveries of the events that routes publish, when an event is
// planned, and leases to this instance's dispatcher the deliveries for which it has
// room, when the event is stored.
type Fanout struct {
	Subscriptions *match.SubscriptionCache
	Targets       CachedTargets
	Catalogue     *match.Catalogue  // may be nil
	Shares        *cpushare.Limiter // of each tenant, of the time for its filters and schemas
	Dispatcher    LocalDispatcher
	Next          EffectStore
	Log           *slog.Logger
}

// CachedTargets tells a target of a route as a destination if it is in memory.
type CachedTargets interface {
	Cached(of eventhook.Destination) (to Destination, ok bool)
}

// What one transaction may make.
const (
	mostFanned      = 2000    // deliveries of a batch; one event may have more
	mostFannedByOne = 100_000 // deliveries of what one event publishes
)

// Match makes the deliveries of the events that a planned event publishes, by the
// tenant's subscriptions of the plan's generation: the meter counts the work. Once the
// meter has reached its limit, the actions that are not matched fail. The error is
// ErrStalePlan if the subscriptions are of a newer generation than the plan.
func (f *Fanout) Match(ctx context.Context, m *meter.Meter, s *effects.Settlement) error {
	if !publishes(s) {
		return nil
	}
	roster, err := f.Subscriptions.AtLeast(ctx, s.Event.TenantID, s.Generation)
	if err != nil {
		return err
	}
	if roster.Generation() > s.Generation {
		return eventhook.ErrStalePlan
	}
	check := func(e *eventhook.Event) string {
		category, _ := f.Catalogue.Check(ctx, m, e)
		return category
	}
	f.match(m, s, roster, check)
	return nil
}

// MatchNow does as Match with what is in memory. It reports false if that is not
// enough.
func (f *Fanout) MatchNow(m *meter.Meter, s *effects.Settlement) bool {
	if !publishes(s) {
		return true
	}
	roster, ok := f.Subscriptions.Peek(s.Event.TenantID)
	if !ok || roster.Generation() != s.Generation {
		return false
	}
	isKnown := true
	f.match(m, s, roster, func(e *eventhook.Event) string {
		category, ok := f.Catalogue.CheckNow(m, e)
		isKnown = isKnown && ok
		return category
	})
	return isKnown
}

// match makes the deliveries; check returns the category of an event.
func (f *Fanout) match(m *meter.Meter, s *effects.Settlement, roster *match.Matcher, check func(*eventhook.Event) string) {
	rows := 0
	for i := range s.Actions {
		a := &s.Actions[i]
		p := a.Effect.Publication
		if p == nil || a.Failure != "" {
			continue
		}
		e := publishedEvent(s.Event, p)
		p.Envelope = &eventhook.Envelope{Source: s.Event.SourceSlug, Category: check(e)}
		e.Envelope = p.Envelope
		matched, tooSlow := roster.Match(m, e)
		if errors.Is(m.Err(), meter.ErrLimit) {
			a.Effect, a.Permanent = effects.Effect{}, true
			a.Failure = fmt.Sprintf("route %q target %d: not done: %s", a.RouteName, a.TargetIndex+1, match.TooManySteps)
			continue
		}
		match.LogTooSlow(f.Log, f.Shares, s.Event, tooSlow)
		if rows += len(matched); rows > mostFannedByOne {
			a.Effect, a.Permanent = effects.Effect{}, true
			a.Failure = fmt.Sprintf("target %d: not done: one event is published to at most %d subscribers in all", a.TargetIndex+1, mostFannedByOne)
			rows -= len(matched)
			continue
		}
		p.Subscriptions, p.Deliveries = matched, deliveriesOf(e, matched).deliveries
	}
}

// publishes reports whether an action of a plan publishes an event.
func publishes(s *effects.Settlement) bool {
	return slices.ContainsFunc(s.Actions, func(a effects.PlannedAction) bool { return a.Effect.Publication != nil && a.Failure == "" })
}

// Accept stores new events with the effects of their plans, and passes the deliveries
// that are leased to this instance to its dispatcher.
func (f *Fanout) Accept(ctx context.Context, batch []*effects.Arrival) error {
	plans := make([]*effects.Settlement, len(batch))
	for i, a := range batch {
		plans[i] = a.Plan
		f.reserve(a.Plan)
	}
	err := f.Next.Accept(ctx, batch)
	f.settled(plans, func(i int) bool {
		a := batch[i]
		if a.Plan != nil && a.Plan.IsStale {
			f.Subscriptions.InvalidateOld(a.Event.TenantID, a.Plan.Generation)
		}
		return err == nil && a.IsPlanned()
	})
	return err
}

// SettleEvents settles a batch, in several transactions if its deliveries are many. It
// returns the settlements of which nothing was written, as the store does. On an error
// some of the others may have been settled; repeating it makes no second delivery.
func (f *Fanout) SettleEvents(ctx context.Context, batch []*effects.Settlement) (unsettled []*effects.Settlement, err error) {
	batch = slices.DeleteFunc(slices.Clone(batch), func(s *effects.Settlement) bool { return s.IsSettled })
	for len(batch) > 0 {
		part := firstPart(batch)
		for _, s := range part {
			f.reserve(s)
		}
		more, err := f.Next.SettleEvents(ctx, part)
		f.settled(part, func(i int) bool {
			if part[i].IsStale {
				f.Subscriptions.InvalidateOld(part[i].Event.TenantID, part[i].Generation)
			}
			part[i].IsSettled = err == nil && !slices.Contains(more, part[i])
			return part[i].IsSettled
		})
		if err != nil {
			return nil, err
		}
		unsettled = append(unsettled, more...)
		batch = batch[len(part):]
	}
	return unsettled, nil
}

// firstPart is the beginning of a batch whose deliveries one transaction may make. It
// is a copy: the store sorts it.
func firstPart(batch []*effects.Settlement) []*effects.Settlement {
	rows := 0
	for i, s := range batch {
		rows += deliveriesIn(s)
		if i > 0 && rows > mostFanned {
			return slices.Clone(batch[:i])
		}
	}
	return slices.Clone(batch)
}

func deliveriesIn(s *effects.Settlement) (n int) {
	for i := range s.Actions {
		if p := s.Actions[i].Effect.Publication; p != nil {
			n += len(p.Deliveries)
		}
	}
	return n
}

// reserve leases the deliveries of a plan for which the dispatcher has room.
func (f *Fanout) reserve(s *effects.Settlement) {
	for to := range addressed(s) {
		to.reserve(f.Dispatcher)
	}
	if s == nil || len(s.Prior) > 0 {
		return // a request of an earlier try keeps its row, whatever its lease
	}
	for d, a := range requests(s) {
		if to, ok := f.Targets.Cached(d.Destination()); ok && to.Ready && a.Failure == "" {
			leaseTo(f.Dispatcher, to.Destination, d)
		}
	}
}

// requests goes over the deliveries of a plan to targets of the routes themselves.
func requests(s *effects.Settlement) func(yield func(*eventhook.Delivery, *effects.PlannedAction) bool) {
	return func(yield func(*eventhook.Delivery, *effects.PlannedAction) bool) {
		for i := range s.Actions {
			a := &s.Actions[i]
			if r := a.Effect.Request; r != nil && !yield(r.Delivery, a) {
				return
			}
		}
	}
}

// settled passes on the deliveries of the plans that were stored, and gives the room
// of all others back: of plans that were not stored, of events whose key was taken, and
// of actions that the store let fail.
func (f *Fanout) settled(plans []*effects.Settlement, isStored func(i int) bool) {
	var stored []addressees
	var sent []*eventhook.Delivery
	for i, s := range plans {
		if s == nil {
			continue
		}
		was := isStored(i)
		for d, a := range requests(s) {
			if was && a.Status == eventhook.ActionPending {
				sent = append(sent, d)
			} else {
				release(f.Dispatcher, []*eventhook.Delivery{d})
			}
		}
		for to, a := range addressed(s) {
			if was && a.Status == eventhook.ActionSuccess {
				stored = append(stored, to)
			} else {
				to.release(f.Dispatcher)
			}
		}
	}
	if len(stored)+len(sent) > 0 {
		handOver(f.Dispatcher, stored, sent)
	}
}

// addressed goes over the events that a plan publishes to subscribers.
func addressed(s *effects.Settlement) func(yield func(addressees, *effects.PlannedAction) bool) {
	return func(yield func(addressees, *effects.PlannedAction) bool) {
		if s == nil {
			return
		}
		for i := range s.Actions {
			a := &s.Actions[i]
			if p := a.Effect.Publication; p != nil && len(p.Deliveries) > 0 && !yield(addressees{p.Subscriptions, p.Deliveries}, a) {
				return
			}
		}
	}
}

// publishedEvent is an event that a route makes of another, as subscribers get it.
func publishedEvent(of *eventhook.Event, p *effects.Publication) *eventhook.Event {
	return &eventhook.Event{
		ID: p.ID, TenantID: of.TenantID, SourceSlug: of.SourceSlug, Origin: eventhook.OriginRoute, Status: eventhook.EventDelivered,
		EventType: p.EventType, IdempotencyKey: p.IdempotencyKey, ContentType: "application/json", BodySize: len(p.Data),
		TraceID: of.Trace(), RequestID: of.RequestID, CorrelationID: cmp.Or(of.CorrelationID, of.ID.String()),
		Payload: eventhook.Payload{Body: p.Data}, Envelope: p.Envelope,
	}
}
