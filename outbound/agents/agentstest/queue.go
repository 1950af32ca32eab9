// Package agentstest checks implementations of the interfaces of package agents.
package agentstest

import (
	"slices"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/agents"
)

// Queue is an agents.Queue to check, with functions that control its environment.
type Queue struct {
	agents.Queue
	Tenant  eventhook.TenantID
	Create  func() eventhook.DestinationID                                            // returns a new destination without deliveries
	Store   func(to eventhook.DestinationID, n int) []eventhook.DeliveryID            // stores n deliveries that are due now, one after another
	Resize  func(id eventhook.DeliveryID, size int)                                   // sets the size of the body of its event
	Ordered func(to eventhook.DestinationID, values ...string) []eventhook.DeliveryID // stores a delivery with the key of each value
	Now     func() time.Time
	Advance func(by time.Duration)
}

const lease = 30 * time.Second

// The agents of the cases.
var one, other = eventhook.AgentID{1}, eventhook.AgentID{2}

// QueueCases maps each rule of agents.Queue to the test that checks it. Each test needs a new
// queue.
var QueueCases = map[string]func(t *testing.T, q Queue){
	"a claimed delivery is claimed once while its lease lasts":       claimedOnce,
	"a claim gets no more than it asks for":                          bounded,
	"the bodies of a claim are bounded":                              boundedBytes,
	"a probe leases missed deliveries one after another":             probed,
	"destinations share a claim":                                     shared,
	"a claim of few deliveries serves the first destinations":        firstServed,
	"agents hold no more than the slots of a destination":            slots,
	"expired leases are counted until a result":                      counted,
	"a released delivery is claimed again without an expired lease":  released,
	"a delivery shows its last lease":                                held,
	"a probe gets tried deliveries first":                            triedFirst,
	"due deliveries are counted up to a limit":                       dueCounts,
	"deliveries of a key are claimed one after another":              ordered,
	"old and unreported deliveries are leased to become dead":        expired,
	"a settlement after a lease that was taken over changes nothing": takenOver,
}

func (q Queue) share(to eventhook.DestinationID) agents.Share {
	return agents.Share{TenantID: q.Tenant, DestinationID: to, Slots: 100, Max: 100}
}

func (q Queue) claim(t *testing.T, agent eventhook.AgentID, n int, shares ...agents.Share) []agents.Claimed {
	t.Helper()
	list, err := q.ClaimForAgent(t.Context(), agents.Claim{Agent: agent, Max: n, Lease: lease, Shares: shares})
	if err != nil {
		t.Fatalf("ClaimForAgent: %v", err)
	}
	for _, x := range list {
		if want := q.Now().Add(lease); x.Lease.Until.Sub(want).Abs() > time.Millisecond || x.Lease.Token == 0 || x.Event == nil ||
			x.Event.ID != x.EventID || x.Status != eventhook.DeliveryAcquired || x.TenantID != q.Tenant {
			t.Errorf("claimed %+v, want it leased until %s with its event", x.Delivery, want)
		}
	}
	return list
}

func (q Queue) settle(t *testing.T, status eventhook.DeliveryStatus, list ...agents.Claimed) (lost int) {
	t.Helper()
	var batch []*outbound.DeliverySettlement
	for _, x := range list {
		s := &outbound.DeliverySettlement{Delivery: x.Delivery, Status: status, Attempt: &eventhook.Attempt{StartedAt: q.Now(), StatusCode: 200}}
		if status == eventhook.DeliveryFailed {
			s.Attempt = &eventhook.Attempt{StartedAt: q.Now(), StatusCode: 503, ErrorClass: eventhook.ErrorHTTP5xx, Error: "it answered 503"}
			s.RetryCount, s.DueAt, s.LastError = x.RetryCount+1, q.Now().Add(time.Minute), s.Attempt.Error
		}
		batch = append(batch, s)
	}
	gone, err := q.SettleDeliveries(t.Context(), batch)
	if err != nil {
		t.Fatalf("SettleDeliveries: %v", err)
	}
	return len(gone)
}

func ids(list []agents.Claimed) (all []eventhook.DeliveryID) {
	for _, x := range list {
		all = append(all, x.ID)
	}
	return all
}

func wantIDs(t *testing.T, act string, got []agents.Claimed, want ...eventhook.DeliveryID) {
	t.Helper()
	if !slices.Equal(ids(got), want) {
		t.Errorf("%s: claimed %v, want %v", act, ids(got), want)
	}
}

func perDestination(list []agents.Claimed) map[eventhook.DestinationID]int {
	n := map[eventhook.DestinationID]int{}
	for _, x := range list {
		n[x.DestinationID]++
	}
	return n
}

func claimedOnce(t *testing.T, q Queue) {
	to := q.Create()
	stored := q.Store(to, 3)
	wantIDs(t, "the first claim", q.claim(t, one, 10, q.share(to)), stored...)
	wantIDs(t, "a second claim", q.claim(t, other, 10, q.share(to)))
	q.Advance(lease + time.Second)
	again := q.claim(t, other, 10, q.share(to))
	if len(again) != 3 || again[0].Lease.Token != 2 || again[0].Leases != 2 {
		t.Errorf("after the lease: got %+v, want three deliveries with a second lease", again)
	}
}

func bounded(t *testing.T, q Queue) {
	to := q.Create()
	stored := q.Store(to, 5)
	wantIDs(t, "a claim of 2", q.claim(t, one, 2, q.share(to)), stored[:2]...)
	limited := q.share(to)
	limited.Max = 1
	wantIDs(t, "a share of 1", q.claim(t, one, 10, limited), stored[2])
}

func boundedBytes(t *testing.T, q Queue) {
	to := q.Create()
	stored := q.Store(to, 5)
	const half = agents.MaxClaimBytes / 2
	for i, size := range []int{half, half, 1, 3 * half, 1} {
		q.Resize(stored[i], size)
	}
	wantIDs(t, "two bodies of half the limit", q.claim(t, one, 10, q.share(to)), stored[:2]...)
	wantIDs(t, "before a large body", q.claim(t, one, 10, q.share(to)), stored[2])
	large := q.claim(t, one, 10, q.share(to))
	wantIDs(t, "a body above the limit", large, stored[3])
	wantIDs(t, "after it", q.claim(t, one, 10, q.share(to)), stored[4])
	if large[0].Leases != 1 {
		t.Errorf("the large one has %d leases, want 1", large[0].Leases)
	}
}

// probed needs no disabled subscription: it checks the deliveries of a probe.
func probed(t *testing.T, q Queue) {
	to := q.Create()
	stored := q.Store(to, 2)
	q.settle(t, eventhook.DeliveryDead, q.claim(t, one, 1, q.share(to))...)
	p := outbound.Probe{TenantID: q.Tenant, SubscriptionID: eventhook.SubscriptionID(to), FailingSince: q.Now().Add(-time.Hour), MaxAge: 24 * time.Hour, IsHeld: true}
	missed := func(want eventhook.DeliveryID, wasDead bool) *outbound.Missed {
		t.Helper()
		m, err := q.ClaimMissedForAgent(t.Context(), one, p, lease)
		if err != nil || m == nil || m.ID != want || m.WasDead != wasDead || m.Event == nil {
			t.Fatalf("got %+v, %v; want %s with WasDead %t", m, err, want, wasDead)
		}
		held, err := q.HeldDeliveries(t.Context(), []agents.Key{{TenantID: q.Tenant, ID: m.ID}})
		if err != nil || len(held) != 1 || !held[0].IsProbe || held[0].WasDead != wasDead || held[0].Agent != one {
			t.Fatalf("held: got %+v, %v; want the probe of the agent with WasDead %t", held, err, wasDead)
		}
		return m
	}
	missed(stored[0], true)
	q.Advance(time.Millisecond)
	p.After = stored[0]
	missed(stored[1], false)
	q.Advance(lease + time.Second)
	p.After = eventhook.DeliveryID{}
	again := missed(stored[0], true) // although its lease has expired
	outcome := &outbound.DeliverySettlement{Delivery: again.Delivery, Status: eventhook.DeliveryFailed, DueAt: q.Now(), IsProbe: true}
	if lost, err := q.SettleDeliveries(t.Context(), []*outbound.DeliverySettlement{outcome}); err != nil || len(lost) != 0 {
		t.Fatalf("the settlement of the probe: %d lost, %v", len(lost), err)
	}
	for _, x := range q.claim(t, one, 10, q.share(to)) {
		if x.Leases != 1 {
			t.Errorf("after a probe: %d leases, want 1", x.Leases)
		}
		if held, err := q.HeldDeliveries(t.Context(), []agents.Key{{TenantID: q.Tenant, ID: x.ID}}); err != nil || held[0].IsProbe {
			t.Errorf("after a usual claim: got %+v, %v; want no probe", held, err)
		}
	}
}

func shared(t *testing.T, q Queue) {
	busy, calm, empty := q.Create(), q.Create(), q.Create()
	q.Store(busy, 20)
	q.Store(calm, 20)
	n := perDestination(q.claim(t, one, 10, q.share(busy), q.share(calm), q.share(empty)))
	if n[busy] != 5 || n[calm] != 5 {
		t.Errorf("got %d and %d deliveries, want 5 of each destination", n[busy], n[calm])
	}
}

func firstServed(t *testing.T, q Queue) {
	a, b, c := q.Create(), q.Create(), q.Create()
	for _, to := range []eventhook.DestinationID{a, b, c} {
		q.Store(to, 2)
	}
	n := perDestination(q.claim(t, one, 2, q.share(c), q.share(a), q.share(b)))
	if n[c] != 1 || n[a] != 1 || n[b] != 0 {
		t.Errorf("got %v, want one delivery of the first two of the list", n)
	}
}

func slots(t *testing.T, q Queue) {
	to := q.Create()
	q.Store(to, 5)
	narrow := q.share(to)
	narrow.Slots = 2
	first := q.claim(t, one, 10, narrow)
	if len(first) != 2 {
		t.Fatalf("claimed %d, want 2", len(first))
	}
	wantIDs(t, "with all slots held", q.claim(t, other, 10, narrow))
	q.settle(t, eventhook.DeliverySuccess, first[0])
	if list := q.claim(t, other, 10, narrow); len(list) != 1 {
		t.Errorf("with a free slot: claimed %d, want 1", len(list))
	}
	q.Advance(lease + time.Second)
	if list := q.claim(t, other, 10, narrow); len(list) != 2 {
		t.Errorf("after the leases: claimed %d, want 2", len(list))
	}
}

func counted(t *testing.T, q Queue) {
	to := q.Create()
	q.Store(to, 1)
	for want := 1; want <= 3; want++ {
		list := q.claim(t, one, 1, q.share(to))
		if len(list) != 1 || list[0].Leases != want {
			t.Fatalf("claim %d: got %+v, want %d leases in a row", want, list, want)
		}
		if want == 3 {
			q.settle(t, eventhook.DeliveryFailed, list...)
		}
		q.Advance(lease + time.Second)
	}
	q.Advance(time.Minute)
	if list := q.claim(t, one, 1, q.share(to)); len(list) != 1 || list[0].Leases != 1 || list[0].RetryCount != 1 {
		t.Errorf("after a result: got %+v, want one lease", list)
	}
}

func released(t *testing.T, q Queue) {
	to := q.Create()
	q.Store(to, 1)
	list := q.claim(t, one, 1, q.share(to))
	if err := q.ReleaseDeliveries(t.Context(), []*eventhook.Delivery{list[0].Delivery}); err != nil {
		t.Fatal(err)
	}
	if list := q.claim(t, other, 1, q.share(to)); len(list) != 1 || list[0].Leases != 1 {
		t.Errorf("got %+v, want the delivery with one lease", list)
	}
}

func held(t *testing.T, q Queue) {
	to := q.Create()
	q.Store(to, 2)
	x := q.claim(t, one, 1, q.share(to))[0]
	read := func() agents.Held {
		t.Helper()
		list, err := q.HeldDeliveries(t.Context(), []agents.Key{{TenantID: q.Tenant, ID: x.ID}, {TenantID: q.Tenant, ID: eventhook.DeliveryID{9}}, {TenantID: eventhook.TenantID{9}, ID: x.ID}})
		if err != nil || len(list) != 1 {
			t.Fatalf("HeldDeliveries: got %d, %v; want the one that exists", len(list), err)
		}
		return list[0]
	}
	h := read()
	if h.Agent != one || h.Status != eventhook.DeliveryAcquired || h.Lease.Token != x.Lease.Token || h.DestinationID != to || h.EventID != x.EventID || h.Event.Trace() != x.Event.Trace() {
		t.Errorf("got %+v of agent %s, want the lease of %s", h.Delivery, h.Agent, one)
	}
	q.settle(t, eventhook.DeliverySuccess, x)
	if h := read(); h.Status != eventhook.DeliverySuccess {
		t.Errorf("got %s, want success", h.Status)
	}
}

func triedFirst(t *testing.T, q Queue) {
	to := q.Create()
	stored := q.Store(to, 3)
	q.settle(t, eventhook.DeliveryFailed, q.claim(t, one, 1, q.share(to))...)
	q.Advance(2 * time.Minute)
	probe := q.share(to)
	probe.TriedFirst, probe.Max = true, 1
	wantIDs(t, "a probe", q.claim(t, one, 10, probe), stored[0])
	wantIDs(t, "a probe without a tried delivery", q.claim(t, one, 10, probe), stored[1])
}

func dueCounts(t *testing.T, q Queue) {
	to, empty := q.Create(), q.Create()
	q.Store(to, 5)
	for _, c := range []struct{ slots, max, want int }{{100, 100, 5}, {100, 3, 3}, {2, 100, 2}} {
		s := agents.Share{TenantID: q.Tenant, DestinationID: to, Slots: c.slots, Max: c.max}
		due, err := q.DueForAgents(t.Context(), []agents.Share{q.share(empty), s})
		if err != nil || len(due) != 1 || due[0] != (agents.Due{DestinationID: to, Count: c.want}) {
			t.Errorf("%+v: got %+v, %v; want %d due deliveries", c, due, err, c.want)
		}
	}
	q.claim(t, one, 2, q.share(to))
	full := q.share(to)
	full.Slots = 2
	if due, err := q.DueForAgents(t.Context(), []agents.Share{full}); err != nil || len(due) != 0 {
		t.Errorf("without a free slot: got %+v, %v; want none", due, err)
	}
}

func ordered(t *testing.T, q Queue) {
	to := q.Create()
	stored := q.Ordered(to, "a", "a", "b")
	first := q.claim(t, one, 10, q.share(to))
	wantIDs(t, "the first of each key", first, stored[0], stored[2])
	q.Advance(lease + time.Second)
	again := q.claim(t, other, 10, q.share(to))
	wantIDs(t, "after the lease", again, stored[0], stored[2])
	q.settle(t, eventhook.DeliverySuccess, again...)
	wantIDs(t, "after the first has ended", q.claim(t, one, 10, q.share(to)), stored[1])
}

func expired(t *testing.T, q Queue) {
	to := q.Create()
	old := q.Store(to, 1)
	q.Advance(2 * time.Hour)
	before := q.Now().Add(-time.Hour)
	unreported := q.Store(to, 1)
	claimSecond := q.share(to)
	for range eventhook.MaxAgentLeases {
		q.claim(t, one, 10, claimSecond)
		q.Advance(lease + time.Second)
	}
	fresh := q.Store(to, 1)
	list, err := q.ExpiredForAgents(t.Context(), to, before, 10)
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, "the expired ones", list, old[0], unreported[0])
	if again, err := q.ExpiredForAgents(t.Context(), to, before, 10); err != nil || len(again) != 0 {
		t.Errorf("again: got %d, %v; want none", len(again), err)
	}
	wantIDs(t, "a claim", q.claim(t, one, 10, q.share(to)), fresh...)
}

func takenOver(t *testing.T, q Queue) {
	to := q.Create()
	q.Store(to, 1)
	first := q.claim(t, one, 1, q.share(to))
	q.Advance(lease + time.Second)
	second := q.claim(t, other, 1, q.share(to))
	if lost := q.settle(t, eventhook.DeliverySuccess, first...); lost != 1 {
		t.Errorf("the first lease: %d were lost, want 1", lost)
	}
	if lost := q.settle(t, eventhook.DeliverySuccess, second...); lost != 0 {
		t.Errorf("the second lease: %d were lost, want 0", lost)
	}
}
