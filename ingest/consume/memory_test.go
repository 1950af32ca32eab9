package consume

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
)

func TestMemoryIsShared(t *testing.T) {
	a, b := eventhook.NewID[eventhook.Tenant](time.Unix(1, 0)), eventhook.NewID[eventhook.Tenant](time.Unix(2, 0))
	m := newMemory(100)
	reserve := func(claim string, tenant eventhook.TenantID, bytes int64, want bool) {
		t.Helper()
		if got := m.reserve(tenant, bytes); got != want {
			t.Errorf("%s: got %t, want %t", claim, got, want)
		}
	}
	reserve("a consumer alone exceeds the share of its tenant", a, 60, true)
	reserve("the share of a tenant is full", a, 1, false)
	reserve("another tenant has its share", b, 30, true)
	reserve("the memory of the instance is full", b, 20, false)
	m.release(a, 60)
	reserve("released memory can be reserved", b, 20, true)
	m.release(b, 20)
	m.release(b, 30)
	reserve("a consumer alone exceeds the memory of the instance", a, 120, true)
	m.release(a, 120)
	if m.all != 0 || len(m.tenants) != 0 {
		t.Errorf("%d bytes and %d tenants are left", m.all, len(m.tenants))
	}
}

// The tenant has memory for one of its two sources.
func TestASourceWaitsForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newLeases("a", "b"), newQueue()
		one := startWith(s, q, "one", 10, func(d *Deps) { d.Bytes = 3 * minBytes })
		defer one.stop()
		pass(5 * time.Second)
		running, waiting := "a", "b"
		if q.consumers(running) == 0 {
			running, waiting = waiting, running
		}
		q.wantConsumers(t, running, 1)
		q.wantConsumers(t, waiting, 0)
		if got := s.state(waiting); got.Status != eventhook.ConsumerWaiting || got.Error != errMemory.Error() {
			t.Errorf("got the state %+v", got)
		}
		s.change(running, func(r *row) { r.isEnabled = false })
		pass(time.Minute)
		q.wantConsumers(t, running, 0)
		q.wantConsumers(t, waiting, 1)
		wantStatus(t, s, waiting, eventhook.ConsumerRunning)
	})
}
