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

// Fanout creates the deliveries of the events that routes publish. Match creates them while
// an event is planned. Accept and SettleEvents store the event with them, and lease
// deliveries to this instance as far as its dispatcher has memory for them. Safe for
// concurrent use.
type Fanout struct {
	Subscriptions *match.SubscriptionCache
	Targets       CachedTargets
	Catalogue     *match.Catalogue  // may be nil
	CPULimiter    *cpushare.Limiter // limits the time of each tenant for filters and schemas
	Dispatcher    LocalDispatcher
	Store         EffectStore
	Log           *slog.Logger
}

// CachedTargets returns the target of a route as a destination if it is in memory.
type CachedTargets interface {
	Cached(of eventhook.Destination) (to Destination, ok bool)
}

const (
	maxBatchDeliveries = 2000    // in one transaction; a single event may exceed it
	maxEventDeliveries = 100_000 // of all events that the routes publish for one event
)

// Match creates the deliveries of the events that a plan publishes, with the tenant's
// subscriptions of the plan's generation. The meter counts the work. Once the meter has
// reached its limit, the remaining actions fail permanently. The error is ErrStalePlan if
// the current subscriptions are of a newer generation than the plan.
func (f *Fanout) Match(ctx context.Context, m *meter.Meter, s *effects.Settlement) error {
	if !publishes(s) {
		return nil
	}
	matcher, err := f.Subscriptions.AtLeast(ctx, s.Event.TenantID, s.Generation)
	if err != nil {
		return err
	}
	if matcher.Generation() > s.Generation {
		return eventhook.ErrStalePlan
	}
	check := func(e *eventhook.Event) string {
		category, _ := f.Catalogue.Check(ctx, m, e)
		return category
	}
	f.match(m, s, matcher, check)
	return nil
}

// MatchNow is Match without reading the database. It returns false if the subscriptions or
// the catalogue entries are not in memory.
func (f *Fanout) MatchNow(m *meter.Meter, s *effects.Settlement) bool {
	if !publishes(s) {
		return true
	}
	matcher, ok := f.Subscriptions.Peek(s.Event.TenantID)
	if !ok || matcher.Generation() != s.Generation {
		return false
	}
	isKnown := true
	f.match(m, s, matcher, func(e *eventhook.Event) string {
		category, ok := f.Catalogue.CheckNow(m, e)
		isKnown = isKnown && ok
		return category
	})
	return isKnown
}

// match creates the deliveries. check returns the category of an event.
func (f *Fanout) match(m *meter.Meter, s *effects.Settlement, matcher *match.Matcher, check func(*eventhook.Event) string) {
	rows := 0
	for i := range s.Actions {
		a := &s.Actions[i]
		p := a.Effect.Publication
		if p == nil || a.Failure != "" {
			continue
		}
		e := publishedEvent(s.Event, p)
		p.Envelope = &eventhook.Envelope{Source: s.Event.SourceSlug, Category: check(e), Hops: s.Event.Hops(),
			TraceFlags: s.Event.TraceFlags()}
		e.Envelope = p.Envelope
		matched, tooSlow := matcher.Match(m, e)
		keys := match.OrderKeys(m, e, matched)
		if errors.Is(m.Err(), meter.ErrLimit) {
			a.Effect, a.Permanent = effects.Effect{}, true
			a.Failure = fmt.Sprintf("route %q target %d: not published: %s", a.RouteName, a.TargetIndex+1, match.TooManySteps)
			continue
		}
		match.LogTooSlow(f.Log, f.CPULimiter, s.Event, tooSlow)
		if rows += len(matched); rows > maxEventDeliveries {
			a.Effect, a.Permanent = effects.Effect{}, true
			a.Failure = fmt.Sprintf("target %d: not published: one event is published to at most %d subscribers in total", a.TargetIndex+1, maxEventDeliveries)
			rows -= len(matched)
			continue
		}
		p.Subscriptions, p.Deliveries = matched, newEventDeliveries(e, matched, keys).deliveries
	}
}

// publishes reports whether an action of a plan publishes an event.
func publishes(s *effects.Settlement) bool {
	return slices.ContainsFunc(s.Actions, func(a effects.PlannedAction) bool { return a.Effect.Publication != nil && a.Failure == "" })
}

// Accept stores new events with the effects of their plans. It passes the deliveries that
// are leased to this instance to its dispatcher.
func (f *Fanout) Accept(ctx context.Context, batch []*effects.Arrival) error {
	for _, a := range batch {
		if a.Plan != nil {
			f.reserve(a.Plan)
		}
	}
	err := f.Store.Accept(ctx, batch)
	var stored storedDeliveries
	for _, a := range batch {
		if a.Plan != nil {
			f.finish(&stored, a.Plan, err == nil && a.IsPlanned())
		}
	}
	f.enqueue(stored)
	return err
}

// SettleEvents settles a batch, in several transactions if it has many deliveries. Like the
// store, it returns the settlements for which nothing was written. On an error, a part of
// the batch may have been settled. A retry creates no delivery twice.
func (f *Fanout) SettleEvents(ctx context.Context, batch []*effects.Settlement) (unsettled []*effects.Settlement, err error) {
	batch = slices.DeleteFunc(slices.Clone(batch), func(s *effects.Settlement) bool { return s.IsSettled })
	for len(batch) > 0 {
		part := firstPart(batch)
		for _, s := range part {
			f.reserve(s)
		}
		more, err := f.Store.SettleEvents(ctx, part)
		var stored storedDeliveries
		for _, s := range part {
			s.IsSettled = err == nil && !slices.Contains(more, s)
			f.finish(&stored, s, s.IsSettled)
		}
		f.enqueue(stored)
		if err != nil {
			return nil, err
		}
		unsettled = append(unsettled, more...)
		batch = batch[len(part):]
	}
	return unsettled, nil
}

// firstPart returns the first settlements of a batch, as many as one transaction stores.
// The result is a copy, because the store sorts it.
func firstPart(batch []*effects.Settlement) []*effects.Settlement {
	rows := 0
	for i, s := range batch {
		rows += deliveriesIn(s)
		if i > 0 && rows > maxBatchDeliveries {
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

// reserve leases the deliveries of a plan to this instance as far as the dispatcher has
// memory for them.
func (f *Fanout) reserve(s *effects.Settlement) {
	for deliveries := range publications(s) {
		deliveries.reserve(f.Dispatcher)
	}
	if len(s.Prior) > 0 {
		return // the delivery of an earlier attempt keeps its row and its lease
	}
	for d, a := range requests(s) {
		if to, ok := f.Targets.Cached(d.Destination()); ok && to.Ready && a.Failure == "" {
			leaseTo(f.Dispatcher, to.Destination, d)
		}
	}
}

// requests iterates over the deliveries of a plan to targets of routes.
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

// storedDeliveries are the leased deliveries of plans that were stored.
type storedDeliveries struct {
	published []eventDeliveries
	requests  []*eventhook.Delivery
}

// finish adds the leased deliveries of a plan to stored if the store has stored them, and
// releases all others: the deliveries of a plan that was not stored, and of actions that
// failed in the store. If the plan is stale, finish evicts the subscriptions by which it
// was made.
func (f *Fanout) finish(stored *storedDeliveries, s *effects.Settlement, isStored bool) {
	if s.IsStale {
		f.Subscriptions.InvalidateOld(s.Event.TenantID, s.Generation)
	}
	for d, a := range requests(s) {
		if isStored && a.Status == eventhook.ActionPending {
			stored.requests = append(stored.requests, d)
		} else {
			release(f.Dispatcher, []*eventhook.Delivery{d})
		}
	}
	for deliveries, a := range publications(s) {
		if isStored && a.Status == eventhook.ActionSuccess {
			stored.published = append(stored.published, deliveries)
		} else {
			deliveries.release(f.Dispatcher)
		}
	}
}

// enqueue passes stored deliveries to the dispatcher.
func (f *Fanout) enqueue(stored storedDeliveries) {
	if len(stored.published)+len(stored.requests) > 0 {
		enqueueStored(f.Dispatcher, stored.published, stored.requests)
	}
}

// publications iterates over the deliveries of the events that a plan publishes.
func publications(s *effects.Settlement) func(yield func(eventDeliveries, *effects.PlannedAction) bool) {
	return func(yield func(eventDeliveries, *effects.PlannedAction) bool) {
		for i := range s.Actions {
			a := &s.Actions[i]
			if p := a.Effect.Publication; p != nil && len(p.Deliveries) > 0 && !yield(eventDeliveries{p.Subscriptions, p.Deliveries}, a) {
				return
			}
		}
	}
}

// publishedEvent returns the event that a route publishes for another event.
func publishedEvent(from *eventhook.Event, p *effects.Publication) *eventhook.Event {
	return &eventhook.Event{
		ID: p.ID, TenantID: from.TenantID, SourceSlug: from.SourceSlug, Origin: eventhook.OriginRoute, Status: eventhook.EventDelivered,
		EventType: p.EventType, IdempotencyKey: p.IdempotencyKey, ContentType: "application/json", BodySize: len(p.Data),
		TraceID: from.Trace(), RequestID: from.RequestID, CorrelationID: cmp.Or(from.CorrelationID, from.ID.String()),
		Payload: eventhook.Payload{Body: p.Data}, Envelope: p.Envelope,
	}
}
