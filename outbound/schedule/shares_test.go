package schedule_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/schedule"
)

// fill reserves memory for up to n new deliveries of a destination and offers them.
func (m *model) fill(to *target, n int) int {
	granted, until := m.s.Reserve(to.Destination, n, m.now)
	if to.Ready {
		to.know()
	}
	for _, x := range m.createSized(to, granted, 10, offered) {
		x.leaseTo = until
		m.s.Offer([]*eventhook.Delivery{x.Delivery}, m.now)
	}
	return granted
}

// only replaces the tenants and destinations of a model by a tenant with n destinations
// that are ready and allow many sends at once.
func (m *model) only(n int) (list []*target) {
	tenant := eventhook.NewID[eventhook.Tenant](m.now)
	for range n {
		list = append(list, &target{Destination: schedule.Destination{
			ID: eventhook.NewID[eventhook.Destination](m.now), TenantID: tenant, Version: 1, Ready: true, Slots: 1000, Timeout: time.Second,
		}})
	}
	m.targets = append(m.targets, list...)
	return list
}

// A tenant with a large backlog and endless sends does not delay tenants with few deliveries. They
// get memory and slots immediately.
func TestATenantWithFewDeliveriesDoesNotWaitForOneWithMany(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		m.targets, m.config.Slots, m.config.Deliveries, m.config.Bytes = nil, rapid.IntRange(2, 64).Draw(t, "slots"), rapid.IntRange(16, 500).Draw(t, "deliveries"), 1<<20
		m.config.Unsettled = 1000
		m.s = schedule.New(m.config, func() float64 { return 0 })
		busy := m.only(rapid.IntRange(1, 40).Draw(t, "busy destinations"))
		for range 3 { // again: its destinations get more memory and slots with each success
			for _, to := range busy {
				m.fill(to, 1000)
			}
			m.sendAll()
			for range len(m.jobs) / 2 {
				m.finish(0, schedule.Result{Destination: m.jobs[0].Destination, Settled: true, Attempt: &schedule.Attempt{}})
			}
			m.settle(len(m.items), false)
		}
		m.sendAll()
		m.check()
		before := len(m.jobs)
		if most := (m.config.Slots + 1) / 2; before > most {
			t.Fatalf("one tenant has %d of %d slots, want %d at most", before, m.config.Slots, most)
		}
		others := rapid.IntRange(1, min(m.config.Slots/2, 8)).Draw(t, "others")
		for i := range others {
			if m.fill(m.only(1)[0], 1) != 1 {
				t.Fatalf("tenant %d of %d with one delivery gets no memory", i+1, others)
			}
		}
		m.sendAll()
		if got := len(m.jobs) - before; got != others {
			t.Fatalf("%d of %d tenants with one delivery are sent to, want all", got, others)
		}
	})
}

// Tenants that all have a backlog get about the same number of sends, in any order in which the
// sends end.
func TestBusyTenantsShareTheSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		m.targets, m.config.Deliveries, m.config.Bytes, m.config.Unsettled = nil, 2000, 1<<20, 1000
		m.config.Slots = rapid.IntRange(4, 32).Draw(t, "slots")
		m.s = schedule.New(m.config, func() float64 { return 0 })
		tenants := rapid.IntRange(2, 4).Draw(t, "tenants")
		each := rapid.IntRange(1, 5).Draw(t, "destinations of each")
		for range tenants {
			m.only(each)
		}
		sent := map[eventhook.TenantID]int{}
		const sends = 200
		for range sends {
			for _, to := range m.targets {
				m.fill(to, 10)
			}
			m.sendAll()
			i := rapid.IntRange(0, len(m.jobs)-1).Draw(t, "job")
			to := m.itemOf(m.jobs[i].Delivery).to
			sent[to.TenantID]++
			m.finish(i, schedule.Result{Destination: to.Destination, Settled: true, Attempt: &schedule.Attempt{}})
			m.settle(len(m.items), false)
			m.forgetDone()
		}
		for _, to := range m.targets {
			if n, least := sent[to.TenantID], (sends/tenants-m.config.Slots)/2; n < least {
				t.Fatalf("%d of %d sends for one of %d tenants, want %d at least", n, sends, tenants, least)
			}
		}
	})
}

// forgetDone removes the deliveries that were sent from the model.
func (m *model) forgetDone() {
	left := m.items[:0]
	for _, x := range m.items {
		if x.stage == done {
			delete(m.of, x.Delivery)
		} else {
			left = append(left, x)
		}
	}
	m.items = left
}
