package schedule_test

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/schedule"
)

// recovering is a scheduler with one destination.
type recovering struct {
	*testing.T
	s    *schedule.Scheduler
	to   schedule.Destination
	now  time.Time
	jobs []schedule.Job
}

func newRecovering(t *testing.T) *recovering {
	return &recovering{T: t, now: start, s: schedule.New(schedule.Config{Slots: 1000, Deliveries: 10_000, Bytes: 1 << 20, Batch: 100, Unsettled: 1000, Lease: time.Minute},
		func() float64 { return 0 }), to: schedule.Destination{ID: eventhook.NewID[eventhook.Destination](start), TenantID: eventhook.NewID[eventhook.Tenant](start),
		Version: 1, Ready: true, Slots: 16, Timeout: time.Second, HeldBefore: start.Add(-time.Minute)}}
}

func (r *recovering) delivery(at time.Time, change ...func(*eventhook.Delivery)) *eventhook.Delivery {
	d := &eventhook.Delivery{TenantID: r.to.TenantID, DestinationID: r.to.ID, EventID: eventhook.NewID[eventhook.Event](at), Event: &eventhook.Event{}}
	for _, c := range change {
		c(d)
	}
	return d
}

func released(d *eventhook.Delivery) { d.IsReleased = true }

func retried(d *eventhook.Delivery) { d.RetryCount = 1 }

// backlog claims up to n deliveries from the database.
func (r *recovering) backlog(n int, at time.Time, change ...func(*eventhook.Delivery)) {
	r.Helper()
	reserved, _ := r.s.ReserveClaim(r.to, r.now)
	n = min(n, reserved)
	for range n {
		r.s.Offer([]*eventhook.Delivery{r.delivery(at, change...)}, r.now)
	}
	r.s.Claimed(r.to.ID, reserved, n, r.now)
}

// sends starts all sends that may start now, and returns their number.
func (r *recovering) sends() (n int) {
	for {
		j, ok := r.s.Next(r.now)
		if !ok {
			return n
		}
		r.jobs = append(r.jobs, j)
		n++
	}
}

// finish ends all running sends; without start, no next send is counted as running.
func (r *recovering) finish(a schedule.Attempt) (started int) {
	list := r.jobs
	r.jobs = nil
	for _, j := range list {
		next, ok := r.s.Finish(j, schedule.Result{At: r.now, Destination: r.to, Settled: true, Attempt: &a})
		r.s.Freed([]*eventhook.Delivery{j.Delivery}, true)
		if ok {
			r.jobs = append(r.jobs, next)
		}
	}
	r.sends()
	return len(r.jobs)
}

var (
	succeeded = schedule.Attempt{Succeeded: true}
	failed    = schedule.Attempt{Failed: true}
)

func TestRecoveredDeliveriesBeginWithOneSlotAndDouble(t *testing.T) {
	for claim, of := range map[string]struct {
		at     time.Time
		change []func(*eventhook.Delivery)
	}{"released": {start, []func(*eventhook.Delivery){released}}, "held": {start.Add(-time.Hour), nil}} {
		r := newRecovering(t)
		for range 12 { // the destination may get many sends at once
			r.backlog(1, start)
			r.sends()
			r.finish(succeeded)
		}
		r.backlog(100, of.at, of.change...)
		running := []int{r.sends()}
		for range 4 {
			running = append(running, r.finish(succeeded))
		}
		for i, want := range []int{1, 2, 4, 8, 16} {
			if running[i] != want {
				t.Errorf("%s deliveries, round %d: got %d sends at once, want %d", claim, i+1, running[i], want)
			}
		}
		r.finish(schedule.Attempt{}) // an answer of 400: the circuit does not count it
		if len(r.jobs) != 1 {
			t.Errorf("%s deliveries, after a failure: got %d sends at once, want 1", claim, len(r.jobs))
		}
	}
}

func TestNewDeliveriesPrecedeRecoveredOnes(t *testing.T) {
	r := newRecovering(t)
	r.backlog(20, start, released)
	if n, _ := r.s.Reserve(r.to, 6, r.now); n != 6 {
		t.Fatalf("%d new deliveries get memory, want 6", n)
	}
	for range 6 {
		r.s.Offer([]*eventhook.Delivery{r.delivery(start)}, r.now)
	}
	r.sends()
	for i, j := range r.jobs {
		if j.Delivery.IsReleased {
			t.Errorf("send %d is of a recovered delivery", i+1)
		}
	}
	for len(r.jobs) > 0 && !r.jobs[0].Delivery.IsReleased {
		r.finish(succeeded)
	}
	if len(r.jobs) == 0 {
		t.Error("no recovered delivery is sent after the new ones")
	}
}

// A poison delivery fails whenever it is sent. Its retries do not open the circuit.
func TestRetriesOfAReleasedDeliveryDoNotOpenTheCircuit(t *testing.T) {
	for _, c := range []struct {
		claim  string
		change []func(*eventhook.Delivery)
		want   schedule.State
	}{
		{"retries of released deliveries", []func(*eventhook.Delivery){released, retried}, schedule.Closed},
		{"first attempts of released deliveries", []func(*eventhook.Delivery){released}, schedule.Open},
		{"retries of other deliveries", []func(*eventhook.Delivery){retried}, schedule.Open},
	} {
		r := newRecovering(t)
		for range 5 {
			r.backlog(1, start, c.change...)
			r.sends()
			r.finish(failed)
		}
		if status, _ := r.s.Status(r.to.ID); status.Circuit != c.want {
			t.Errorf("%s fail: the circuit is %s, want %s", c.claim, status.Circuit, c.want)
		}
	}
}
