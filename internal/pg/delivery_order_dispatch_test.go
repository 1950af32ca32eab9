package pg

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/bench/measure"
	"github.com/eventhook/eventhook/outbound"
)

// orderedSink checks that the first requests of the deliveries of each value arrive in the order
// in which they were published. recoveryHarness.mu guards its fields.
type orderedSink struct {
	testing.TB
	random    *rand.Rand
	place     map[eventhook.DeliveryID]int
	last      map[eventhook.OrderKey]int // the place of the last first request
	seen      map[eventhook.DeliveryID]bool
	ended     map[eventhook.DeliveryID]bool
	reordered int
	alwaysOK  int // the place from which no request fails
}

// answer fails some requests, and makes some deliveries dead.
func (s *orderedSink) answer(d *eventhook.Delivery) int {
	at := s.place[d.ID]
	if !s.seen[d.ID] {
		if at < s.last[d.OrderKey] {
			s.reordered++
		}
		s.seen[d.ID], s.last[d.OrderKey] = true, at
	}
	status := 200
	if at < s.alwaysOK {
		switch chance := s.random.IntN(100); {
		case chance < 2:
			return 503
		case chance < 4:
			status = 500
		}
	}
	s.ended[d.ID] = true
	return status
}

// Two instances whose clocks differ send the deliveries of many values, while events are
// published by a third one whose clock is ten minutes slow. One instance is killed and another
// one started. BENCH_ORDERED sets the number of deliveries.
func TestOrderHoldsOverInstancesWhoseClocksDiffer(t *testing.T) {
	const batch, skew = 100, 400 * time.Millisecond // less than a lease
	deliveries := measure.Size(t, "BENCH_ORDERED", 2000)
	values := max(deliveries/100, 20)
	r := newRecovery(t, manySlots, func(s *eventhook.Subscription) {
		s.Retry.TerminalStatuses, s.Retry.InitialDelayMS, s.DisableAfterFailures = []int{500}, 100, new(0)
	})
	sink := &orderedSink{TB: t, random: rand.New(rand.NewPCG(3, 4)), place: map[eventhook.DeliveryID]int{}, last: map[eventhook.OrderKey]int{},
		seen: map[eventhook.DeliveryID]bool{}, ended: map[eventhook.DeliveryID]bool{}, alwaysOK: deliveries - values}
	r.answers = sink.answer
	r.clock.Advance(time.Since(r.clock.Now()) - 10*time.Minute)
	published := 0
	publish := func(n int) {
		for end := published + n; published < end; {
			var list []*outbound.PublishItem
			r.mu.Lock()
			for range min(batch, end-published) {
				r.clock.Advance(10 * time.Microsecond)
				p := r.ordered(r.of, fmt.Sprint(published%values))
				sink.place[p.Deliveries[0].ID] = published
				list, published = append(list, p), published+1
			}
			r.mu.Unlock()
			r.publish(r.db, list...)
		}
	}
	publish(deliveries / 2)
	began := time.Now()
	kill := r.start(deliveries / 4)
	r.skew = skew
	stop := r.start(0)
	publish(deliveries - deliveries/2)
	r.wait(deliveries / 4)
	kill()
	r.skew = -skew
	restarted := r.start(0)
	r.waitUntil(func() bool { return len(sink.ended) == deliveries }, 10*time.Minute)
	took := time.Since(began)
	stop()
	restarted()
	same(t, "deliveries out of order", sink.reordered, 0)
	same(t, "open deliveries", r.count("delivery", "due_at IS NOT NULL"), 0)
	dead := r.count("delivery", "status = 'dead'")
	same(t, "ended deliveries", r.count("delivery", "status = 'success'")+dead, deliveries)
	if dead == 0 {
		t.Error("no delivery is dead, want some")
	}
	t.Logf("%d deliveries of %d values in %s: %d dead, %d repeated, %d out of order", deliveries, values, took.Round(time.Millisecond), dead, r.repeated(), sink.reordered)
}
