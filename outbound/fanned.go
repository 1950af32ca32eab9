package outbound

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/meter"
)

// fanned is what the routed events of one transaction publish, matched against
// one roster of each tenant.
type fanned struct {
	rosters map[eventhook.TenantID]*Roster
	events  []fannedEvent
	rows    int // deliveries
	budget  *meter.Meter
}

// fannedEvent is an event that an action publishes.
type fannedEvent struct {
	of     *effects.Settlement
	action *effects.PlannedAction
	to     addressees
}

// match makes the deliveries of the first settlements of a batch, as many as
// one transaction may, and returns those.
func (f *Fanout) match(ctx context.Context, m *fanned, batch []*effects.Settlement) (part []*effects.Settlement, err error) {
	for i, s := range batch {
		matched, rows := len(m.events), m.rows
		if err := f.matchOne(ctx, m, s); err != nil {
			return nil, err
		}
		if i > 0 && m.rows > mostFanned {
			m.events, m.rows = m.events[:matched], rows
			return batch[:i], nil
		}
	}
	return batch, nil
}

// matchOne does so for one settlement, or marks it stale.
func (f *Fanout) matchOne(ctx context.Context, m *fanned, s *effects.Settlement) error {
	rows, before := 0, len(m.events)
	for i := range s.Actions {
		a := &s.Actions[i]
		p := a.Effect.Publication
		if !isToPublish(a) {
			continue
		}
		roster, err := f.roster(ctx, m, s.Event.TenantID)
		if err != nil {
			return err
		}
		if s.IsStale = !f.isMatched(ctx, m.budget, s, p, roster); s.IsStale {
			m.events = m.events[:before]
			return nil
		}
		to := deliveriesOf(publishedEvent(s.Event, p), p.Subscriptions)
		if rows += len(to.deliveries); rows > mostFannedByOne {
			a.Effect, a.Permanent = effects.Effect{}, true
			a.Failure = fmt.Sprintf("target %d: not done: one event is published to at most %d subscribers in all", a.TargetIndex+1, mostFannedByOne)
			rows -= len(to.deliveries)
			continue
		}
		p.Deliveries = to.deliveries
		m.events = append(m.events, fannedEvent{s, a, to})
	}
	m.rows += rows
	return nil
}

// roster is the one of a tenant that all events of a transaction share.
func (f *Fanout) roster(ctx context.Context, m *fanned, tenant eventhook.TenantID) (*Roster, error) {
	if roster, ok := m.rosters[tenant]; ok {
		return roster, nil
	}
	roster, err := f.Rosters.of(ctx, tenant)
	if err != nil {
		return nil, err
	}
	if m.rosters == nil {
		m.rosters = map[eventhook.TenantID]*Roster{}
	}
	m.rosters[tenant] = roster
	return roster, nil
}

// isMatched matches a publication against a roster, unless planning has done it,
// and reports whether the budget was enough.
func (f *Fanout) isMatched(ctx context.Context, budget *meter.Meter, s *effects.Settlement, p *effects.Publication, roster *Roster) bool {
	if p.IsMatched && p.Generation == roster.generation {
		return true
	}
	if budget.Err() != nil {
		return false
	}
	tooSlow := f.matchAction(ctx, budget, s.Event, p, roster)
	return budget.Err() == nil && len(tooSlow) == 0
}

// matchAction matches a publication against a roster.
func (f *Fanout) matchAction(ctx context.Context, m *meter.Meter, of *eventhook.Event, p *effects.Publication, roster *Roster) (tooSlow []*eventhook.Subscription) {
	e := publishedEvent(of, p)
	if p.Envelope == nil { // else it was matched before
		category, _ := f.Catalogue.Check(ctx, m, e)
		p.Envelope = &eventhook.Envelope{Source: of.SourceSlug, Category: category}
		if m.Err() != nil {
			p.Envelope = nil
		}
	}
	e.Envelope = p.Envelope
	p.Subscriptions, tooSlow = roster.Match(m, e)
	p.Generation, p.IsMatched = roster.generation, m.Err() == nil
	return tooSlow
}

// publishedEvent is an event that a route makes of another, as subscribers get it.
func publishedEvent(of *eventhook.Event, p *effects.Publication) *eventhook.Event {
	return &eventhook.Event{
		ID: p.ID, TenantID: of.TenantID, SourceSlug: of.SourceSlug, Origin: eventhook.OriginRoute, Status: eventhook.EventDelivered,
		EventType: p.EventType, IdempotencyKey: p.IdempotencyKey, ContentType: "application/json", BodySize: len(p.Data),
		TraceID: of.TraceID, RequestID: of.RequestID, CorrelationID: cmp.Or(of.CorrelationID, of.ID.String()),
		Payload: eventhook.Payload{Body: p.Data}, Envelope: p.Envelope,
	}
}

func (m *fanned) reserve(room Room) {
	for _, x := range m.events {
		x.to.reserve(room)
	}
}

func (m *fanned) release(room Room) {
	for _, x := range m.events {
		x.to.release(room)
	}
}

// settled hands over the deliveries of what was published, and gives back the
// room of those that were not: the key was seen before, or the lease was lost.
func (m *fanned) settled(room Room, lost []*effects.Settlement) {
	stored := make([]addressees, 0, len(m.events))
	for _, x := range m.events {
		if x.action.Status != eventhook.ActionSuccess || slices.Contains(lost, x.of) {
			x.to.release(room)
			continue
		}
		stored = append(stored, x.to)
	}
	handOver(room, stored)
}
