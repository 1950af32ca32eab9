package outbound_test

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/schedule"
)

// busy answers like a transform that found all script processes in use.
func busy() eventhook.Attempt {
	return eventhook.Attempt{ErrorClass: eventhook.ErrorBusy, Error: "transform: not run, because too many transforms are running"}
}

// A transform that could not run is no attempt of the subscriber: nothing is settled, the circuit
// stays closed, and the delivery is sent as soon as the pause is over.
func TestABusyTransformIsNoAttempt(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		tenant := newTenant()
		s, other := w.subscribe(tenant, 0, busy), w.subscribe(tenant, 0, nil)
		i := w.start()
		list := i.publish(s, 3)
		i.publish(other, 3)
		w.advance(10 * time.Second)
		if tries := len(w.receiver(s).times); tries < 5 {
			t.Errorf("got %d tries in 10 s, want one a second", tries)
		}
		if status, _ := i.Status(eventhook.DestinationID(s.ID)); status.Circuit != schedule.Closed {
			t.Errorf("the circuit is %s, want closed", status.Circuit)
		}
		for _, d := range list {
			if got := w.row(d.ID); got.Attempts != 0 || got.RetryCount != 0 || got.LastError != "" || got.Status == eventhook.DeliveryDead {
				t.Errorf("while the transforms are busy: got %s after %d attempts and %d retries, %q; want no attempt", got.Status, got.Attempts, got.RetryCount, got.LastError)
			}
		}
		w.want(other, "the other subscription of the tenant", map[eventhook.DeliveryStatus]int{success: 3})
		w.setResponse(s, 0, nil)
		w.advance(2 * time.Second)
		w.want(s, "two seconds after the transforms are free", map[eventhook.DeliveryStatus]int{success: 3})
		for _, d := range list {
			if got := w.row(d.ID); got.Attempts != 1 {
				t.Errorf("got %d attempts, want 1", got.Attempts)
			}
		}
		i.stop()
		if n := i.attempted[eventhook.ErrorBusy]; n > 0 {
			t.Errorf("the observer counted %d busy attempts, want none", n)
		}
	})
}
