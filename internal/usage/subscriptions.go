package usage

import (
	"context"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// span is a period of eventhook.SourceCountSpan of a subscription.
type span struct {
	subscription eventhook.SubscriptionID
	at           time.Time
}

// Delivered counts the attempts and the dead deliveries of a settled batch for their
// subscriptions. Test deliveries do not count. A failed delivery of a route counts for the
// source of its event instead, if it failed at the first attempt or died without one; several
// such deliveries of one event in a batch count once.
func (m *Meter) Delivered(batch []*outbound.DeliverySettlement) {
	now := m.now().UTC()
	at, minute := now.Truncate(eventhook.SourceCountSpan), now.Truncate(time.Minute)
	m.mu.Lock()
	defer m.mu.Unlock()
	failed := map[failedEvent]bool{} // targets of one event count once
	for _, s := range batch {
		if s.IsUncounted {
			continue
		}
		m.noteDelivery(s, minute)
		if s.Delivery.IsOfRoute() {
			if e := s.Delivery.Event; e != nil && !e.SourceID.IsZero() && s.Delivery.RetryCount == 0 && s.Status != eventhook.DeliverySuccess {
				failed[failedEvent{e.SourceID, e.ID}] = true
			}
			continue
		}
		key := span{s.Delivery.SubscriptionID, at}
		m.deliveries[key] = addCounts(m.deliveries[key], countOf(s))
	}
	for e := range failed {
		m.failed[e.source]++
	}
}

// failedEvent identifies an event whose first attempt has failed.
type failedEvent struct {
	source eventhook.SourceID
	event  eventhook.EventID
}

func countOf(s *outbound.DeliverySettlement) (c eventhook.SubscriptionCount) {
	if s.Attempt != nil {
		c.Duration = s.Attempt.Duration
		if s.Attempt.Succeeded() {
			c.Delivered = 1
		} else {
			c.Failed = 1
		}
	}
	if s.Status == eventhook.DeliveryDead {
		c.Dead = 1
	}
	return c
}

func addCounts(c, more eventhook.SubscriptionCount) eventhook.SubscriptionCount {
	c.Delivered += more.Delivered
	c.Failed += more.Failed
	c.Dead += more.Dead
	c.Duration += more.Duration
	return c
}

// FlushSubscriptions writes the counts of subscriptions in one call of the store. If it
// returns an error, no count is lost.
func (m *Meter) FlushSubscriptions(ctx context.Context) error {
	release, err := m.acquireFlush(ctx)
	if err != nil {
		return err
	}
	defer release()
	taken := m.takeDeliveries()
	if len(taken) == 0 {
		return nil
	}
	counts := make([]eventhook.SubscriptionCount, 0, len(taken))
	for key, c := range taken {
		c.SubscriptionID, c.At = key.subscription, key.at
		counts = append(counts, c)
	}
	if err := m.store.AddSubscriptionCounts(ctx, m.slot, counts); err != nil {
		m.restoreDeliveries(taken)
		return err
	}
	return nil
}

// takeDeliveries returns the counts of subscriptions and resets them.
func (m *Meter) takeDeliveries() map[span]eventhook.SubscriptionCount {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := m.deliveries
	m.deliveries = map[span]eventhook.SubscriptionCount{}
	return taken
}

func (m *Meter) restoreDeliveries(counts map[span]eventhook.SubscriptionCount) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, c := range counts {
		m.deliveries[key] = addCounts(m.deliveries[key], c)
	}
}
