package usage

import (
	"context"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// span is a subscription's five minutes.
type span struct {
	subscription eventhook.SubscriptionID
	at           time.Time
}

// Delivered counts the attempts of a batch that was settled, and dead deliveries. Tests
// do not count. A delivery of a route counts for the source of its event instead: once
// when its first attempt failed, or when it is dead unsent.
func (m *Meter) Delivered(batch []*outbound.DeliverySettlement) {
	at := m.now().UTC().Truncate(eventhook.SourceCountSpan)
	m.mu.Lock()
	defer m.mu.Unlock()
	failed := map[failedEvent]bool{} // several targets of one event count once
	for _, s := range batch {
		if s.IsTest {
			continue
		}
		if s.Delivery.IsOfRoute() {
			if e := s.Delivery.Event; e != nil && !e.SourceID.IsZero() && s.Delivery.RetryCount == 0 && s.Status != eventhook.DeliverySuccess {
				failed[failedEvent{e.SourceID, e.ID}] = true
			}
			continue
		}
		key := span{s.Delivery.SubscriptionID, at}
		m.sent[key] = plus(m.sent[key], countOf(s))
	}
	for e := range failed {
		m.failed[e.source]++
	}
}

// failedEvent is an event whose first try has failed.
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

func plus(c, more eventhook.SubscriptionCount) eventhook.SubscriptionCount {
	c.Delivered += more.Delivered
	c.Failed += more.Failed
	c.Dead += more.Dead
	c.Duration += more.Duration
	return c
}

// FlushSubscriptions adds what was counted for subscriptions to the store, in one
// act. With an error nothing is lost.
func (m *Meter) FlushSubscriptions(ctx context.Context) error {
	letGo, err := m.hold(ctx)
	if err != nil {
		return err
	}
	defer letGo()
	sent := m.takeSent()
	if len(sent) == 0 {
		return nil
	}
	counts := make([]eventhook.SubscriptionCount, 0, len(sent))
	for key, c := range sent {
		c.SubscriptionID, c.At = key.subscription, key.at
		counts = append(counts, c)
	}
	if err := m.store.AddSubscriptionCounts(ctx, m.slot, counts); err != nil {
		m.giveBackSent(sent)
		return err
	}
	return nil
}

func (m *Meter) takeSent() map[span]eventhook.SubscriptionCount {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := m.sent
	m.sent = map[span]eventhook.SubscriptionCount{}
	return taken
}

func (m *Meter) giveBackSent(sent map[span]eventhook.SubscriptionCount) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, c := range sent {
		m.sent[key] = plus(m.sent[key], c)
	}
}
