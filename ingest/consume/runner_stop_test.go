package consume

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func wantHolder(t *testing.T, s *leases, slug, want string) {
	t.Helper()
	if got := s.holder(slug); got != want {
		t.Errorf("%s is held by %q, want %q", slug, got, want)
	}
}

func (q *queue) wantConsumers(t *testing.T, source string, want int) {
	t.Helper()
	if n := q.consumers(source); n != want {
		t.Errorf("%d consumers of %s are open, want %d", n, source, want)
	}
}

// A consumer of a changed source stops slowly. Meanwhile all leases are renewed, and no other instance consumes a source.
func TestLeasesAreRenewedWhileAConsumerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newLeases("a", "b"), newQueue()
		one := start(s, q, "one", 10)
		defer one.stop()
		pass(time.Second)
		gate := make(chan struct{})
		q.set(func(q *queue) { q.slow = gate })
		s.change("a", func(r *row) { r.Version++ })
		pass(5 * time.Second)
		pass(2 * time.Minute)
		wantHolder(t, s, "a", "one")
		wantHolder(t, s, "b", "one")
		opened := q.attempts()
		q.set(func(q *queue) { q.slow = nil })
		close(gate)
		synctest.Wait()
		if n := q.attempts() - opened; n != 1 {
			t.Errorf("the changed source was opened %d times, want once and without a pause", n)
		}
		q.wantConsumers(t, "a", 1)
	})
}

// A source goes to another instance after its consumer has ended.
func TestALeaseIsReleasedWhenItsConsumerHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newLeases("a"), newQueue()
		one := start(s, q, "one", 10)
		pass(time.Second)
		gate := make(chan struct{})
		q.set(func(q *queue) { q.slow = gate })
		two := start(s, q, "two", 10)
		defer two.stop()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			one.stop()
		}()
		pass(2 * time.Minute)
		wantHolder(t, s, "a", "one")
		q.wantConsumers(t, "a", 1)
		q.set(func(q *queue) { q.slow = nil })
		close(gate)
		<-ended
		pass(time.Second)
		wantHolder(t, s, "a", "two")
		q.wantConsumers(t, "a", 1)
	})
}

// With a lease of a second, the instance renews it in time.
func TestAShortLeaseIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newLeases("a"), newQueue()
		one := startWith(s, q, "one", 10, func(d *Deps) { d.Lease = time.Second })
		defer one.stop()
		for range 50 {
			pass(100 * time.Millisecond)
			wantHolder(t, s, "a", "one")
		}
	})
}

// The instance has room for one source, and there are two: the one whose broker is down leaves it to the other.
func TestASourceWithoutABrokerLeavesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newLeases("dead", "b"), newQueue()
		s.change("b", func(r *row) { r.isEnabled = false })
		q.broken = "dead"
		one := start(s, q, "one", 1)
		defer one.stop()
		pass(2 * time.Minute)
		wantHolder(t, s, "dead", "one") // no other source needs the place
		s.change("b", func(r *row) { r.isEnabled = true })
		q.publish("b", 1, 3)
		pass(5 * time.Second)
		q.consumed(t, "b", 3)
		wantHolder(t, s, "dead", "")
		pass(10 * time.Minute)
		wantHolder(t, s, "b", "one")
	})
}

// A source keeps its place for a while after its broker has failed.
func TestASourceKeepsItsPlaceForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newLeases("a", "b"), newQueue()
		s.change("b", func(r *row) { r.isEnabled = false })
		one := start(s, q, "one", 1)
		defer one.stop()
		pass(10 * time.Minute)
		s.change("b", func(r *row) { r.isEnabled = true })
		q.set(func(q *queue) { q.broken, q.receive = "a", errors.New("the connection was closed") })
		pass(50 * time.Second)
		wantHolder(t, s, "a", "one")
		pass(15 * time.Second)
		wantHolder(t, s, "b", "one")
	})
}
