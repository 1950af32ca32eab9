package pg

import (
	"log/slog"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// A receiver dies at 14:50 and is disabled by its failures at 15:10. It comes back at 15:22. Of
// the 16 events in this time, all arrive, each once, although the instance that saw the outage is
// killed, and although the receiver fails again while the recovery is running.
func TestEveryEventOfAnOutageArrives(t *testing.T) {
	f := setUp(t)
	stored := f.subscription()
	s := &stored
	f.clock.Advance(2*time.Hour + 50*time.Minute)
	arrived := map[eventhook.DeliveryID]int{}
	isUp := false
	receiver := &probed{f: f, says: func(d *eventhook.Delivery) int {
		if !isUp {
			return 503
		}
		arrived[d.ID]++
		return 200
	}}
	failingSince := f.clock.Now()
	// deliver sends what is due, as the dispatcher of an instance does. The retries are used up at once.
	deliver := func(db *DB, atMost int) {
		if f.storedSubscription(s.ID).Status != eventhook.SubscriptionActive {
			return
		}
		for _, d := range f.claimDeliveries(db, atMost, s) {
			status := eventhook.DeliveryDead
			if receiver.says(d) == 200 {
				status = eventhook.DeliverySuccess
			}
			f.settleDeliveries(db, f.settlement(d, status, limit(9), func(s *outbound.DeliverySettlement) {
				if status == eventhook.DeliveryDead {
					s.FailingSince, s.CircuitOpen = failingSince, true
				}
			}))
		}
	}
	var all []*eventhook.Delivery
	publish := func() { all = append(all, f.publishTo(1, s)...) }
	for range 9 { // until 15:08
		publish()
		deliver(f.db, 10)
		f.clock.Advance(2*time.Minute + 15*time.Second)
	}
	same(t, "disabled by", f.storedSubscription(s.ID).DisabledBy, eventhook.DisabledByFailures)
	probe := func(db *DB) {
		p := &outbound.Prober{Store: db, Directory: receiver, Observer: noObserver{}, Log: slog.New(slog.DiscardHandler), Now: f.clock.Now, Lease: lease}
		_, err := p.Step(t.Context())
		f.must(err)
	}
	for range 7 { // until 15:24
		publish()
		f.clock.Advance(2 * time.Minute)
		probe(f.other) // the instance db was killed
	}
	same(t, "arrived during the outage", len(arrived), 0)
	o, err := f.other.SubscriptionOutage(t.Context(), f.storedSubscription(s.ID), "")
	f.must(err)
	same(t, "missed", []any{o.Circuit(), o.Missed}, []any{eventhook.CircuitOpen, 16})

	isUp = true
	f.clock.Advance(15 * time.Minute)
	probe(f.other)
	same(t, "after the probe", []any{f.storedSubscription(s.ID).Status, len(arrived)}, []any{eventhook.SubscriptionActive, 1})
	w := f.replayWorker(f.other)
	f.replaySteps(w)
	deliver(f.other, 3)
	isUp, failingSince = false, f.clock.Now() // the outage begins again
	deliver(f.other, 2)
	f.clock.Advance(time.Minute)
	f.replaySteps(w)
	isUp = true
	deliver(f.other, 1) // a delivery that waits is the probe
	for range 5 {
		f.clock.Advance(time.Minute)
		f.replaySteps(w)
		deliver(f.other, 20)
	}
	f.clock.Advance(time.Minute)
	f.replaySteps(w)
	for i, d := range all {
		if n := arrived[d.ID]; n != 1 {
			t.Errorf("event %d of %d has arrived %d times, want once", i+1, len(all), n)
		}
	}
	same(t, "running recoveries", f.recoveries(s), 0)
	same(t, "events", []int{f.count("event", "event_type = 'webhook.recovering'"), f.count("event", "event_type = 'webhook.recovered'")}, []int{2, 2})
	o, err = f.other.SubscriptionOutage(t.Context(), f.storedSubscription(s.ID), "")
	f.must(err)
	same(t, "the circuit", []any{o.Circuit(), o.Missed}, []any{eventhook.CircuitClosed, 0})
}
