package outbound

import (
	"context"
	"errors"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/batch"
)

// PublishBatch publishes several events of one tenant, and returns an outcome for each, in
// the same order. A failed event does not affect the other events. As many consecutive
// events share one transaction as BatchRows and BatchBytes of the configuration allow.
func (p *Publisher) PublishBatch(ctx context.Context, tenant eventhook.TenantID, events []*eventhook.Event) []PublishOutcome {
	outcomes := make([]PublishOutcome, len(events))
	open := make([]*queuedItem, 0, len(events))
	for i, e := range events {
		if err := p.complete(ctx, e); err != nil {
			outcomes[i].Err = err
			continue
		}
		open = append(open, &queuedItem{PublishItem: PublishItem{Event: e}, outcome: &outcomes[i]})
	}
	slot := largeCallSlot{publisher: p, tenant: tenant}
	defer slot.release()
	for range maxMatches {
		if len(open) == 0 {
			return outcomes
		}
		open = p.try(ctx, tenant, open, &slot)
	}
	fail(open, errPublishUnstable)
	return outcomes
}

// try matches and stores events. It returns the events that must be matched again,
// because the tenant's subscriptions have changed meanwhile.
func (p *Publisher) try(ctx context.Context, tenant eventhook.TenantID, open []*queuedItem, slot *largeCallSlot) (stale []*queuedItem) {
	matcher, err := p.Subscriptions.Get(ctx, tenant)
	if err != nil {
		fail(open, err)
		return nil
	}
	matched := open[:0]
	for _, x := range open {
		list, keys, err := p.match(ctx, matcher, x.Event)
		if err != nil {
			x.outcome.Err = err
			continue
		}
		x.Event.Status = "" // the store sets it
		x.matched = newEventDeliveries(x.Event, list, keys)
		x.Deliveries, x.Generation = x.matched.deliveries, matcher.Generation()
		matched = append(matched, x)
	}
	for len(matched) > 0 {
		part, rows, bytes := p.nextGroup(matched)
		matched = matched[len(part):]
		if err := slot.acquire(ctx, rows-1); err != nil {
			fail(part, err)
			continue
		}
		stale = append(stale, p.store(part, rows, bytes)...)
	}
	if len(stale) > 0 {
		p.Subscriptions.InvalidateOld(tenant, matcher.Generation())
	}
	return stale
}

// nextGroup returns as many of the first events as fit into one transaction, at least one,
// with their rows and bytes.
func (p *Publisher) nextGroup(list []*queuedItem) (group []*queuedItem, rows, bytes int) {
	for i, x := range list {
		r, b := 1+len(x.Deliveries), bytesOf(x)
		if i > 0 && (rows+r > p.bounds.BatchRows || bytes+b > p.bounds.BatchBytes) {
			return list[:i:i], rows, bytes
		}
		rows, bytes = rows+r, bytes+b
	}
	return list, rows, bytes
}

// store queues a group, waits for its commit, sets the outcomes, and returns the stale
// events.
func (p *Publisher) store(group []*queuedItem, rows, bytes int) (stale []*queuedItem) {
	err := p.commits.Do(group, rows, bytes)
	switch {
	case errors.Is(err, batch.ErrFull):
		err = errPublishQueueFull
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

// bytesOf estimates the memory of a queued event.
func bytesOf(x *queuedItem) int {
	const deliveryBytes = 300
	envelope := x.Event.Envelope
	return len(x.Event.Body) + len(envelope.Scope) + len(envelope.Actor) + len(envelope.Metadata) + deliveryBytes*len(x.Deliveries)
}

// fail sets the error of the outcomes of these events.
func fail(list []*queuedItem, err error) {
	for _, x := range list {
		x.outcome.Err = err
	}
}

// largeCallSlot is the slot that a call needs before it stores many rows. Each tenant has
// one slot, and the large calls of a tenant get it in the order in which they wait.
type largeCallSlot struct {
	publisher *Publisher
	tenant    eventhook.TenantID
	free      func() // nil: the slot is not acquired
}

// acquire waits for the slot before rows are stored, besides the first event. It does not
// wait if the rows are few or the call has the slot already. The call keeps the slot until
// release. The error is that of ctx, or errPublishQueueFull if too many large calls wait.
func (s *largeCallSlot) acquire(ctx context.Context, rows int) error {
	p := s.publisher
	if s.free != nil || rows < p.large {
		return nil
	}
	queue := p.queues.Open(s.tenant)
	if p.queues.Callers(s.tenant) > maxLargeCalls {
		p.queues.Close(s.tenant)
		return errPublishQueueFull
	}
	select {
	case <-queue.Slot():
		s.free = func() { queue.Release(); p.queues.Close(s.tenant) }
		return nil
	case <-ctx.Done():
		p.queues.Close(s.tenant)
		return ctx.Err()
	}
}

func (s *largeCallSlot) release() {
	if s.free != nil {
		s.free()
	}
}
