package outbound

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/eventhook/eventhook"
)

// fanned is what the routed events of one transaction publish, matched against
// one roster of each tenant.
type fanned struct {
	rosters map[eventhook.TenantID]*Roster
	events  []fannedEvent
	rows    int // deliveries
}

// fannedEvent is an event that an action publishes.
type fannedEvent struct {
	of     *eventhook.Settlement
	action *eventhook.PlannedAction
	to     addressees
}

// match makes the deliveries of the first settlements of a batch, as many as
// one transaction may, and returns those.
func (f *Fanout) match(ctx context.Context, m *fanned, batch []*eventhook.Settlement) (part []*eventhook.Settlement, err error) {
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

// matchOne does so for one settlement.
func (f *Fanout) matchOne(ctx context.Context, m *fanned, s *eventhook.Settlement) error {
	rows := 0
	for i := range s.Actions {
		a := &s.Actions[i]
		p := a.Effect.Publication
		if p == nil || a.Failure != "" || a.IsSettled {
			continue
		}
		roster, err := f.roster(ctx, m, s.Event.TenantID)
		if err != nil {
			return err
		}
		e := f.published(ctx, s.Event, p)
		to := deliveriesOf(e, roster.Match(e))
		if rows += len(to.deliveries); rows > mostFannedByOne {
			a.Effect, a.Permanent = eventhook.Effect{}, true
			a.Failure = fmt.Sprintf("target %d: not done: one event is published to at most %d subscribers in all", a.TargetIndex+1, mostFannedByOne)
			rows -= len(to.deliveries)
			continue
		}
		p.Deliveries, p.Generation = to.deliveries, roster.generation
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

// published is an event that a route makes of another, as subscribers get it.
func (f *Fanout) published(ctx context.Context, of *eventhook.Event, p *eventhook.Publication) *eventhook.Event {
	e := &eventhook.Event{
		ID: p.ID, TenantID: of.TenantID, SourceSlug: of.SourceSlug, Origin: eventhook.OriginRoute, Status: eventhook.EventDelivered,
		EventType: p.EventType, IdempotencyKey: p.IdempotencyKey, ContentType: "application/json", BodySize: len(p.Data),
		TraceID: of.TraceID, RequestID: of.RequestID, CorrelationID: cmp.Or(of.CorrelationID, of.ID.String()),
		Payload: eventhook.Payload{Body: p.Data},
	}
	if p.Envelope == nil { // else it was matched before
		category, _ := f.Catalogue.Check(ctx, e)
		p.Envelope = &eventhook.Envelope{Source: of.SourceSlug, Category: category}
	}
	e.Envelope = p.Envelope
	return e
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
func (m *fanned) settled(room Room, lost []*eventhook.Settlement) {
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
