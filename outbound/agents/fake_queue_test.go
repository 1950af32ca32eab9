package agents_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/agents"
)

var errDown = errors.New("the database is away")

// row is a stored delivery.
type row struct {
	eventhook.Delivery
	due    time.Time // zero: never
	waits  bool      // for an earlier delivery of its key
	agent  eventhook.AgentID
	leases int // of agents in a row; 0: the last lease is not an agent's
	n      int // insertion order

	isProbe, wasDead, rejected bool
}

// queue is a fake agents.Queue in memory. Several services may share it.
type queue struct {
	mu       sync.Mutex
	rows     []*row
	wake     chan struct{}
	isDown   bool
	gate     chan struct{} // if it is not nil, HeldDeliveries waits until it is closed
	takes    time.Duration // of a claim, until its answer is there
	looks    int           // calls of DueForAgents
	claims   int
	paced    map[eventhook.DestinationID]time.Time
	probeDue bool
	probed   []outbound.ProbeResult // of EndProbe
	// settled are the settlements that were written.
	settled []*outbound.DeliverySettlement
}

func newQueue() *queue {
	return &queue{wake: make(chan struct{}), paced: map[eventhook.DestinationID]time.Time{}}
}

var _ agents.Queue = (*queue)(nil)

// store stores a delivery of an event that was created at a time. value orders it, unless it is "".
func (q *queue) store(tenant eventhook.TenantID, to eventhook.DestinationID, at time.Time, value string) eventhook.DeliveryID {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := &eventhook.Event{ID: eventhook.NewID[eventhook.Event](at), TenantID: tenant, EventType: "order.made", Payload: eventhook.Payload{Body: []byte(`{"n":1}`)}}
	r := &row{Delivery: eventhook.Delivery{ID: eventhook.DeliveryIDOf(e.ID, to), TenantID: tenant, DestinationID: to, SubscriptionID: eventhook.SubscriptionID(to),
		EventID: e.ID, EventType: e.EventType, Event: e, Status: eventhook.DeliveryPending}, due: time.Now(), n: len(q.rows)}
	if value != "" {
		r.OrderKey = eventhook.OrderKeyOf(value)
		r.waits = slices.ContainsFunc(q.rows, func(o *row) bool { return isBefore(o, r) })
	}
	q.rows = append(q.rows, r)
	q.wakeLocked()
	return r.ID
}

// isBefore reports whether an open delivery of the key of r precedes r.
func isBefore(o, r *row) bool {
	return o.DestinationID == r.DestinationID && o.OrderKey == r.OrderKey && !o.due.IsZero() && o != r
}

func (q *queue) wakeLocked() {
	close(q.wake)
	q.wake = make(chan struct{})
}

func (q *queue) set(change func(q *queue)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change(q)
}

func (q *queue) row(id eventhook.DeliveryID) row {
	q.mu.Lock()
	defer q.mu.Unlock()
	return *q.find(id)
}

func (q *queue) find(id eventhook.DeliveryID) *row {
	if i := slices.IndexFunc(q.rows, func(r *row) bool { return r.ID == id }); i >= 0 {
		return q.rows[i]
	}
	return nil
}

// dueRows returns the due deliveries of a destination, in the order in which they became due.
func (q *queue) dueRows(to eventhook.DestinationID) (due []*row) {
	for _, r := range q.rows {
		if r.DestinationID == to && !r.waits && !r.due.IsZero() && !r.due.After(time.Now()) {
			due = append(due, r)
		}
	}
	slices.SortStableFunc(due, func(x, y *row) int { return x.due.Compare(y.due) })
	return due
}

func (q *queue) held(to eventhook.DestinationID) (n int) {
	for _, r := range q.rows {
		if r.DestinationID == to && r.leases > 0 && r.Status == eventhook.DeliveryAcquired && r.due.After(time.Now()) {
			n++
		}
	}
	return n
}

func (q *queue) DueForAgents(_ context.Context, list []agents.Share) (due []agents.Due, _ error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.looks++
	if q.isDown {
		return nil, errDown
	}
	for _, s := range list {
		if n := min(len(q.dueRows(s.DestinationID)), s.Max, s.Slots-q.held(s.DestinationID)); n > 0 {
			due = append(due, agents.Due{DestinationID: s.DestinationID, Count: n})
		}
	}
	return due, nil
}

// ClaimForAgent leases deliveries also if ctx ends before the answer is there, as a database can.
func (q *queue) ClaimForAgent(ctx context.Context, c agents.Claim) (list []agents.Claimed, _ error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer func() {
		time.Sleep(q.takes)
		if ctx.Err() != nil {
			list = nil
		}
	}()
	q.claims++
	if q.isDown {
		return nil, errDown
	}
	var open []agents.Share
	for _, s := range c.Shares {
		if len(q.dueRows(s.DestinationID)) > 0 && q.held(s.DestinationID) < s.Slots && len(open) < c.Max {
			open = append(open, s)
		}
	}
	bytes := 0
	for round := 0; ; round++ {
		before := len(list)
		for _, s := range open {
			if len(list) >= c.Max || round >= min(s.Max, (c.Max+len(open)-1)/len(open)) || q.held(s.DestinationID) >= s.Slots {
				continue
			}
			if due := q.dueRows(s.DestinationID); len(due) > 0 {
				bytes += due[0].Event.BodySize
			}
			if len(list) == 0 || bytes <= agents.MaxClaimBytes {
				list = append(list, q.lease(s, c)...)
			}
		}
		if len(list) == before {
			break
		}
	}
	slices.SortStableFunc(list, func(x, y agents.Claimed) int { return x.DueSince.Compare(y.DueSince) })
	return list, nil
}

// lease leases the next delivery of a share, if there is one.
func (q *queue) lease(s agents.Share, c agents.Claim) []agents.Claimed {
	due := q.dueRows(s.DestinationID)
	if s.TriedFirst {
		slices.SortStableFunc(due, func(x, y *row) int { return cmp.Compare(y.RetryCount, x.RetryCount) })
	}
	if len(due) == 0 {
		return nil
	}
	return []agents.Claimed{q.begin(due[0], c.Agent, c.Lease)}
}

func (q *queue) begin(r *row, agent eventhook.AgentID, lease time.Duration) agents.Claimed {
	if r.Status != eventhook.DeliveryAcquired {
		r.leases = 0
	}
	r.leases++
	r.isProbe, r.wasDead = false, false
	r.DueSince = r.due
	r.agent, r.Status, r.due = agent, eventhook.DeliveryAcquired, time.Now().Add(lease)
	r.Lease = eventhook.Lease{Token: r.Lease.Token + 1, Until: r.due}
	d := r.Delivery
	return agents.Claimed{Delivery: &d, Leases: r.leases}
}

func (q *queue) ExpiredForAgents(_ context.Context, to eventhook.DestinationID, before time.Time, limit int) (list []agents.Claimed, _ error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.dueRows(to) {
		isOld := r.EventID.Time().Before(before) && (r.RestartedAt == nil || r.RestartedAt.Before(before))
		isUnreported := r.Status == eventhook.DeliveryAcquired && r.leases >= eventhook.MaxAgentLeases
		if (isOld || isUnreported) && len(list) < limit {
			list = append(list, q.begin(r, eventhook.AgentID{}, time.Minute))
			r.leases = 0
		}
	}
	return list, nil
}

func (q *queue) HeldDeliveries(_ context.Context, list []agents.Key) (held []agents.Held, _ error) {
	if q.gate != nil {
		<-q.gate
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.isDown {
		return nil, errDown
	}
	for _, k := range list {
		if r := q.find(k.ID); r != nil && r.TenantID == k.TenantID {
			d := r.Delivery
			held = append(held, agents.Held{Delivery: &d, Agent: r.agent, IsProbe: r.isProbe, WasDead: r.wasDead})
		}
	}
	return held, nil
}

func (q *queue) SettleDeliveries(ctx context.Context, batch []*outbound.DeliverySettlement) (lost []*outbound.DeliverySettlement, _ error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.isDown || ctx.Err() != nil {
		return nil, cmp.Or(ctx.Err(), errDown)
	}
	for _, s := range batch {
		r := q.find(s.Delivery.ID)
		if r == nil || r.Status != eventhook.DeliveryAcquired || r.Lease.Token != s.Delivery.Lease.Token {
			lost = append(lost, s)
			continue
		}
		r.Status, r.RetryCount, r.LastError, r.due = s.Status, s.RetryCount, s.LastError, s.DueAt
		if s.Attempt != nil {
			r.Attempts++
			r.StatusCode = s.Attempt.StatusCode
		}
		q.settled = append(q.settled, s)
		if r.due.IsZero() && !r.OrderKey.IsZero() {
			if i := slices.IndexFunc(q.rows, func(o *row) bool { return isBefore(o, r) }); i >= 0 {
				q.rows[i].waits = false
			}
		}
	}
	return lost, nil
}

func (q *queue) ReleaseDeliveries(ctx context.Context, list []*eventhook.Delivery) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, d := range list {
		if r := q.find(d.ID); r.Lease.Token == d.Lease.Token && r.Status == eventhook.DeliveryAcquired {
			r.Status, r.due = eventhook.DeliveryPending, time.Now()
		}
	}
	return nil
}

func (q *queue) ReserveSends(_ context.Context, list []outbound.SendReservation) ([]time.Time, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := make([]time.Time, len(list))
	for i, r := range list {
		first[i] = q.paced[r.DestinationID]
		if now := time.Now(); first[i].Before(now) {
			first[i] = now
		}
		q.paced[r.DestinationID] = first[i].Add(time.Duration(r.Count) * time.Second / time.Duration(r.PerSecond))
	}
	return first, nil
}

func (q *queue) DeliveriesWake() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.wake
}

func (q *queue) ClaimProbeForAgent(_ context.Context, of []eventhook.SubscriptionID, _ time.Duration) (*outbound.Probe, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.rows {
		if slices.Contains(of, r.SubscriptionID) && q.probeDue {
			q.probeDue = false
			return &outbound.Probe{TenantID: r.TenantID, SubscriptionID: r.SubscriptionID, IsHeld: true}, nil
		}
	}
	return nil, nil
}

func (q *queue) ClaimMissedForAgent(_ context.Context, agent eventhook.AgentID, p outbound.Probe, lease time.Duration) (*outbound.Missed, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.rows {
		isMissed := !r.rejected && (r.Status == eventhook.DeliveryDead || !r.due.IsZero() && !r.due.After(time.Now()))
		if r.SubscriptionID == p.SubscriptionID && isMissed && string(r.ID[:]) > string(p.After[:]) {
			wasDead := r.Status == eventhook.DeliveryDead || r.Status == eventhook.DeliveryAcquired && r.wasDead
			x := q.begin(r, agent, lease)
			r.leases, r.isProbe, r.wasDead = 0, true, wasDead
			return &outbound.Missed{Delivery: x.Delivery, WasDead: wasDead}, nil
		}
	}
	return nil, nil
}

func (q *queue) RejectMissed(_ context.Context, d *eventhook.Delivery) error {
	q.set(func(q *queue) { q.find(d.ID).rejected = true })
	return nil
}

func (q *queue) EndProbe(_ context.Context, _ outbound.Probe, result outbound.ProbeResult) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.probed = append(q.probed, result)
	return nil
}
