package outbound

import (
	"context"
	"errors"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/batch"
)

// PublishBatch is Publish for several events of one tenant. The outcomes are in the
// order of the events; an event that fails costs the others nothing. The events
// share one transaction, as far as BatchRows and BatchBytes of the configuration
// allow; each transaction stores events that follow each other.
func (p *Publisher) PublishBatch(ctx context.Context, tenant eventhook.TenantID, events []*eventhook.Event) []PublishOutcome {
	outcomes := make([]PublishOutcome, len(events))
	open := make([]*publication, 0, len(events))
	for i, e := range events {
		if err := p.complete(ctx, e); err != nil {
			outcomes[i].Err = err
			continue
		}
		open = append(open, &publication{PublishItem: PublishItem{Event: e}, outcome: &outcomes[i]})
	}
	turn := tenantTurn{publisher: p, tenant: tenant}
	defer turn.end()
	for range mostMatches {
		if len(open) == 0 {
			return outcomes
		}
		open = p.try(ctx, tenant, open, &turn)
	}
	fail(open, errUnsettled)
	return outcomes
}

// try matches events and stores them, and returns the ones that are to be tried
// again: the tenant's subscriptions have changed meanwhile.
func (p *Publisher) try(ctx context.Context, tenant eventhook.TenantID, open []*publication, turn *tenantTurn) (stale []*publication) {
	roster, err := p.Subscriptions.Get(ctx, tenant)
	if err != nil {
		fail(open, err)
		return nil
	}
	matched := open[:0]
	for _, x := range open {
		list, err := p.match(ctx, roster, x.Event)
		if err != nil {
			x.outcome.Err = err
			continue
		}
		x.Event.Status = "" // the store sets it
		x.to = deliveriesOf(x.Event, list)
		x.Deliveries, x.Generation = x.to.deliveries, roster.Generation()
		matched = append(matched, x)
	}
	for len(matched) > 0 {
		part, rows, bytes := p.nextGroup(matched)
		matched = matched[len(part):]
		if err := turn.wait(ctx, rows-1); err != nil {
			fail(part, err)
			continue
		}
		stale = append(stale, p.store(part, rows, bytes)...)
	}
	if len(stale) > 0 {
		p.Subscriptions.InvalidateOld(tenant, roster.Generation())
	}
	return stale
}

// nextGroup returns the first events, as many as one transaction takes; one event
// always is.
func (p *Publisher) nextGroup(list []*publication) (group []*publication, rows, bytes int) {
	for i, x := range list {
		r, b := 1+len(x.Deliveries), bytesOf(x)
		if i > 0 && (rows+r > p.bounds.BatchRows || bytes+b > p.bounds.BatchBytes) {
			return list[:i:i], rows, bytes
		}
		rows, bytes = rows+r, bytes+b
	}
	return list, rows, bytes
}

// store waits for the commit that a group is in, and returns the stale events.
func (p *Publisher) store(group []*publication, rows, bytes int) (stale []*publication) {
	err := p.commits.Do(group, rows, bytes)
	switch {
	case errors.Is(err, batch.ErrFull):
		err = errPublishShed
	case errors.Is(err, batch.ErrStopping):
		err = errPublishStopping
	}
	if err != nil {
		fail(group, err)
		return nil
	}
	for _, x := range group {
		switch {
		case x.IsStale:
			stale = append(stale, x)
		case x.Event.Status == "":
			x.outcome.Err = errPublishRefused
		default:
			x.outcome.PublishItem = &x.PublishItem
		}
	}
	return stale
}

// bytesOf is the memory that an event takes while it waits, about.
func bytesOf(x *publication) int {
	const delivery = 300
	n := x.Event.Envelope
	return len(x.Event.Body) + len(n.Scope) + len(n.Actor) + len(n.Metadata) + delivery*len(x.Deliveries)
}

func fail(list []*publication, err error) {
	for _, x := range list {
		x.outcome.Err = err
	}
}

// tenantTurn is the turn of a call among the calls of its tenant that store many
// rows. It stays the call's until end.
type tenantTurn struct {
	publisher *Publisher
	tenant    eventhook.TenantID
	pass      func()
}

// wait waits for the turn if the rows beside the first event are many.
func (t *tenantTurn) wait(ctx context.Context, rows int) error {
	p := t.publisher
	if t.pass != nil || rows < p.many {
		return nil
	}
	line := p.lines.Open(t.tenant)
	if p.lines.Callers(t.tenant) > mostInLine {
		p.lines.Close(t.tenant)
		return errPublishShed
	}
	select {
	case <-line.Slot():
		t.pass = func() { line.Release(); p.lines.Close(t.tenant) }
		return nil
	case <-ctx.Done():
		p.lines.Close(t.tenant)
		return ctx.Err()
	}
}

func (t *tenantTurn) end() {
	if t.pass != nil {
		t.pass()
	}
}
