package usage

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/outbound"
)

// tally has the requests that an account has counted. The counters are never reset, like
// tenant.counted.
type tally struct {
	of                            eventhook.TrafficOf
	received, refused, duplicates atomic.Int64
	isDue                         atomic.Bool // in Meter.dueTallies
	noted                         noted       // guarded by Meter.flushSlot
}

// noted are the counts of a tally that are in Meter.traffic or written.
type noted struct{ received, refused, duplicates int64 }

func (t *tally) due() *atomic.Bool { return &t.isDue }

// Refused counts a request that the source refused because of the request itself.
func (a *Account) Refused() {
	if a != nil {
		a.tally.refused.Add(1)
		a.meter.dueTallies.add(a.tally)
	}
}

// Duplicate counts an event that was stored as a duplicate. Take has counted it as received.
func (a *Account) Duplicate() {
	if a != nil {
		a.tally.duplicates.Add(1)
		a.meter.dueTallies.add(a.tally)
	}
}

// trafficKey identifies the counts of a minute.
type trafficKey struct {
	eventhook.TrafficOf
	at time.Time
}

// note adds counts to those of the current minute. The caller must hold m.mu.
func (m *Meter) note(of eventhook.TrafficOf, at time.Time, t eventhook.Traffic) {
	key := trafficKey{of, at}
	sum := m.traffic[key]
	if sum == nil {
		sum = &eventhook.Traffic{}
		m.traffic[key] = sum
	}
	sum.Add(t)
}

func (m *Meter) minute() time.Time { return m.now().UTC().Truncate(time.Minute) }

// noteSettled counts processed events for their sources.
func (m *Meter) noteSettled(batch []*effects.Settlement) {
	at := m.minute()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range batch {
		m.noteEvent(s.Event, s.Status, at)
	}
}

// noteEvent counts an event that has reached a final status. The caller must hold m.mu.
func (m *Meter) noteEvent(e *eventhook.Event, status eventhook.EventStatus, at time.Time) {
	var t eventhook.Traffic
	switch status {
	case eventhook.EventDelivered, eventhook.EventUnrouted:
		t.Succeeded = 1
	case eventhook.EventDead:
		t.Failed = 1
	default:
		return
	}
	m.note(eventhook.TrafficOf{TenantID: e.TenantID, SourceID: e.SourceID}, at, t)
}

// noteDelivery counts an attempt, a dead delivery and the end of the event of a route. The caller
// must hold m.mu.
func (m *Meter) noteDelivery(s *outbound.DeliverySettlement, at time.Time) {
	if t := trafficOf(s); t != (eventhook.Traffic{}) {
		m.note(eventhook.TrafficOf{TenantID: s.Delivery.TenantID, SubscriptionID: s.Delivery.SubscriptionID}, at, t)
	}
	if s.EventStatus != "" && s.Delivery.Event != nil {
		m.noteEvent(s.Delivery.Event, s.EventStatus, at)
	}
}

// trafficOf counts a settled delivery. The latency counts for deliveries that no user, recovery or
// replay has made due again: the time of these depends on the outage or the user.
func trafficOf(s *outbound.DeliverySettlement) (t eventhook.Traffic) {
	d := s.Delivery
	if a := s.Attempt; a != nil {
		switch {
		case !a.Succeeded():
			t.FailedAttempts = 1
		default:
			t.Sent = 1
			if d.RestartedAt == nil && !d.IsReleased {
				t.Latency.Observe(a.StartedAt.Add(a.Duration).Sub(d.EventID.Time()))
			}
		}
	}
	if s.Status == eventhook.DeliveryDead {
		t.Dead = 1
	}
	return t
}

// FlushTraffic writes the counts of minutes in one call of the store. If it returns an error, no
// count is lost; those that are older than eventhook.TrafficRetention are dropped.
func (m *Meter) FlushTraffic(ctx context.Context) error {
	release, err := m.acquireFlush(ctx)
	if err != nil {
		return err
	}
	defer release()
	taken := m.takeTraffic()
	if len(taken) == 0 {
		return nil
	}
	if err := m.store.AddTraffic(ctx, m.slot, spread(taken)); err != nil {
		m.restoreTraffic(taken)
		return err
	}
	return nil
}

// takeTraffic notes the counts of tallies, and returns the counts of minutes and resets them.
func (m *Meter) takeTraffic() map[trafficKey]*eventhook.Traffic {
	due, at := m.dueTallies.take(), m.minute()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range due {
		now := noted{t.received.Load(), t.refused.Load(), t.duplicates.Load()}
		if now != t.noted {
			m.note(t.of, at, eventhook.Traffic{Received: now.received - t.noted.received, Refused: now.refused - t.noted.refused,
				Duplicates: now.duplicates - t.noted.duplicates})
		}
		t.noted = now
	}
	taken := m.traffic
	m.traffic = map[trafficKey]*eventhook.Traffic{}
	return taken
}

func (m *Meter) restoreTraffic(counts map[trafficKey]*eventhook.Traffic) {
	oldest := m.now().Add(-eventhook.TrafficRetention)
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, t := range counts {
		if key.at.After(oldest) {
			m.note(key.TrafficOf, key.at, *t)
		}
	}
}

// spread returns the counts of each resource and of its tenant, for each length of a span.
func spread(counts map[trafficKey]*eventhook.Traffic) []eventhook.TrafficCount {
	type spanKey struct {
		trafficKey
		span eventhook.TrafficSpan
	}
	index := make(map[spanKey]int, 4*len(counts)) //nolint:mnd // resource and tenant, in two spans
	var list []eventhook.TrafficCount
	add := func(of eventhook.TrafficOf, span eventhook.TrafficSpan, at time.Time, t *eventhook.Traffic) {
		key := spanKey{trafficKey{of, at.Truncate(time.Duration(span))}, span}
		i, ok := index[key]
		if !ok {
			i = len(list)
			index[key], list = i, append(list, eventhook.TrafficCount{TrafficOf: of, Span: span, At: key.at})
		}
		list[i].Add(*t)
	}
	for key, t := range counts {
		tenant := eventhook.TrafficOf{TenantID: key.TenantID}
		for _, span := range []eventhook.TrafficSpan{eventhook.TrafficMinute, eventhook.TrafficMinutes} {
			add(tenant, span, key.at, t)
			if key.TrafficOf != tenant {
				add(key.TrafficOf, span, key.at, t)
			}
		}
	}
	return list
}
