package consume

import (
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
