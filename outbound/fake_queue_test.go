package outbound_test

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

var errDown = errors.New("the database is away")

// stored is a row of the queue.
type stored struct {
	eventhook.Delivery
	due        time.Time // zero: never
	waits      bool      // for earlier deliveries of its key
	dueVersion int       // counts changes of due, to detect outdated entries of the heap
}

// dueEntry is an entry in the heap of a subscription.
type dueEntry struct {
	*stored
	at   time.Time
	seen int
	n    int // insertion order
}

type dueHeap []dueEntry

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	return cmp.Or(h[i].at.Compare(h[j].at), h[i].n-h[j].n) < 0
}
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)   { *h = append(*h, x.(dueEntry)) }
func (h *dueHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// deliveryQueue is a fake outbound.Queue in memory. Several dispatchers may share it.
type deliveryQueue struct {
	mu           sync.Mutex
	rows         map[eventhook.DeliveryID]*stored
	destinations map[eventhook.SubscriptionID][]*stored
	due          map[eventhook.SubscriptionID]*dueHeap
	of           map[eventhook.SubscriptionID]eventhook.TenantID
	order        []eventhook.SubscriptionID
	paced        map[eventhook.SubscriptionID]time.Time
	deleted      map[eventhook.SubscriptionID]bool
	wake         chan struct{}
	n            int
	isDown       bool          // every call fails
	answer       time.Duration // the duration of each call
	late         time.Duration // the delay of the answer to a claim

	did queueStats
}

// queueStats counts the calls of a queue.
type queueStats struct {
	disabled        map[eventhook.SubscriptionID]string
	claimed         map[eventhook.SubscriptionID]int
	lists           int // calls of DueDestinations
	listed          int // destinations in the results of DueDestinations
	claims          int
	lost            int
	released        int
	abandoned       int
	duplicateClaims int // further claims of a destination in one batch
}

func (q *deliveryQueue) stats() queueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.did
	s.disabled, s.claimed = maps.Clone(s.disabled), maps.Clone(s.claimed)
	return s
}

var _ outbound.Queue = (*deliveryQueue)(nil)

func newDeliveryQueue() *deliveryQueue {
	return &deliveryQueue{rows: map[eventhook.DeliveryID]*stored{}, destinations: map[eventhook.SubscriptionID][]*stored{}, due: map[eventhook.SubscriptionID]*dueHeap{}, of: map[eventhook.SubscriptionID]eventhook.TenantID{},
		paced: map[eventhook.SubscriptionID]time.Time{}, deleted: map[eventhook.SubscriptionID]bool{}, wake: make(chan struct{}),
		did: queueStats{disabled: map[eventhook.SubscriptionID]string{}, claimed: map[eventhook.SubscriptionID]int{}}}
}

// store stores a delivery of a new event. It is leased until a time, or due now if until is zero.
func (q *deliveryQueue) store(s *eventhook.Subscription, until time.Time) *eventhook.Delivery {
	return q.storeAt(s, time.Now(), until)
}

// storeAt is like store for an event that was created at a time.
func (q *deliveryQueue) storeAt(s *eventhook.Subscription, at, until time.Time) *eventhook.Delivery {
	q.mu.Lock()
	defer q.mu.Unlock()
	d := q.insert(s, at, until, eventhook.OrderKey{}).Delivery
	return &d
}

// storeOrdered stores a delivery with the key of a value; "" is no value.
func (q *deliveryQueue) storeOrdered(s *eventhook.Subscription, value string) eventhook.DeliveryID {
	q.mu.Lock()
	defer q.mu.Unlock()
	key := eventhook.OrderKey{}
	if value != "" {
		key = eventhook.OrderKeyOf(value)
	}
	return q.insert(s, time.Now(), time.Time{}, key).ID
}

func (q *deliveryQueue) insert(s *eventhook.Subscription, at, until time.Time, key eventhook.OrderKey) *stored {
	e := &eventhook.Event{ID: eventhook.NewID[eventhook.Event](at), TenantID: s.TenantID, EventType: "order.made", Payload: eventhook.Payload{Body: []byte(`{"n":1}`)}}
	to := eventhook.DestinationID(s.ID)
	r := &stored{Delivery: eventhook.Delivery{ID: eventhook.DeliveryIDOf(e.ID, to), TenantID: s.TenantID, DestinationID: to, SubscriptionID: s.ID, EventID: e.ID, EventType: e.EventType, Status: eventhook.DeliveryPending, Event: e, OrderKey: key}}
	isFirst := q.firstOpen(r) == nil
	q.rows[r.ID] = r
	q.destinations[s.ID] = append(q.destinations[s.ID], r)
	if _, known := q.of[s.ID]; !known {
		q.of[s.ID] = s.TenantID
		at, _ := slices.BinarySearchFunc(q.order, s.ID, compareIDs)
		q.order = slices.Insert(q.order, at, s.ID)
		q.due[s.ID] = &dueHeap{}
	}
	switch {
	case !isFirst:
		r.waits = true
	case until.IsZero():
		q.setDue(r, time.Now())
	default:
		r.Status, r.Lease = eventhook.DeliveryAcquired, eventhook.Lease{Token: 1, Until: until}
		q.setDue(r, until)
	}
	return r
}

// firstOpen returns the first open delivery of the key of a delivery, or nil.
func (q *deliveryQueue) firstOpen(of *stored) *stored {
	if of.OrderKey.IsZero() {
		return nil
	}
	for _, r := range q.destinations[of.SubscriptionID] {
		if r.OrderKey == of.OrderKey && (r.waits || !r.due.IsZero()) {
			return r
		}
	}
	return nil
}

// advance makes the next delivery due of the key of a delivery that has ended, and reports
// whether there is one.
func (q *deliveryQueue) advance(ended *stored) bool {
	next := q.firstOpen(ended)
	if next == nil || !next.waits {
		return false
	}
	next.waits = false
	q.setDue(next, time.Now())
	return true
}

func compareIDs(a, b eventhook.SubscriptionID) int { return bytes.Compare(a[:], b[:]) }

func (q *deliveryQueue) setDue(r *stored, at time.Time) {
	r.due = at
	r.dueVersion++
	if !at.IsZero() {
		q.n++
		heap.Push(q.due[r.SubscriptionID], dueEntry{r, at, r.dueVersion, q.n})
	}
}

// firstDue removes and returns the delivery of a destination that became due first, or nil.
func (q *deliveryQueue) firstDue(s eventhook.SubscriptionID, remove bool) *stored {
	h := q.due[s]
	for h != nil && h.Len() > 0 {
		switch first := (*h)[0]; {
		case first.seen != first.dueVersion:
			heap.Pop(h)
		case first.at.After(time.Now()):
			return nil
		case remove:
			heap.Pop(h)
			return first.stored
		default:
			return first.stored
		}
	}
	return nil
}

// claimable returns the next delivery for a claim, or nil if no delivery is due.
func (q *deliveryQueue) claimable(c outbound.Claim) *stored {
	of := eventhook.SubscriptionID(c.DestinationID)
	if c.TriedFirst {
		tried := slices.DeleteFunc(slices.Clone(q.destinations[of]), func(r *stored) bool {
			return r.Status != eventhook.DeliveryFailed || r.due.After(time.Now())
		})
		if len(tried) > 0 {
			return slices.MinFunc(tried, func(x, y *stored) int { return bytes.Compare(x.ID[:], y.ID[:]) })
		}
	}
	return q.firstDue(of, true)
}

// call simulates the delay and the failure of a call.
func (q *deliveryQueue) call(ctx context.Context) error {
	q.mu.Lock()
	answer := q.answer
	q.mu.Unlock()
	if answer > 0 {
		time.Sleep(answer)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	q.mu.Lock()
	if q.isDown {
		q.mu.Unlock()
		return errDown
	}
	return nil
}

func (q *deliveryQueue) DueDestinations(ctx context.Context, after eventhook.DestinationID, limit int) (list []outbound.DueDestination, _ error) {
	if err := q.call(ctx); err != nil {
		return nil, err
	}
	defer q.mu.Unlock()
	q.did.lists++
	at, found := slices.BinarySearchFunc(q.order, eventhook.SubscriptionID(after), compareIDs)
	if found {
		at++
	}
	for _, id := range q.order[at:] {
		if len(list) == limit {
			break
		}
		if q.firstDue(id, false) != nil {
			q.did.listed++
			list = append(list, outbound.DueDestination{TenantID: q.of[id], DestinationID: eventhook.DestinationID(id)})
		}
	}
	return list, nil
}

func (q *deliveryQueue) ClaimDeliveries(ctx context.Context, claims []outbound.Claim) (list []*eventhook.Delivery, _ error) {
	if err := q.call(ctx); err != nil {
		return nil, err
	}
	defer q.mu.Unlock()
	q.did.claims++
	defer func() { // the claim is done even if the caller no longer waits
		late := q.late
		q.mu.Unlock()
		select {
		case <-time.After(late):
		case <-ctx.Done():
			list = nil
		}
		q.mu.Lock()
	}()
	named := map[eventhook.SubscriptionID]bool{}
	for _, c := range claims {
		of := eventhook.SubscriptionID(c.DestinationID)
		if named[of] {
			q.did.duplicateClaims++
		}
		named[of] = true
		for range c.Max {
			r := q.claimable(c)
			if r == nil {
				break
			}
			q.did.claimed[of]++
			r.DueSince = r.due
			r.Status, r.Lease = eventhook.DeliveryAcquired, eventhook.Lease{Token: r.Lease.Token + 1, Until: time.Now().Add(c.Lease)}
			q.setDue(r, r.Lease.Until)
			d := r.Delivery
			list = append(list, &d)
		}
	}
	return list, nil
}

func (q *deliveryQueue) leased(d *eventhook.Delivery) *stored {
	if r := q.rows[d.ID]; r.Lease.Token == d.Lease.Token && r.Status == eventhook.DeliveryAcquired {
		return r
	}
	return nil
}

func (q *deliveryQueue) SettleDeliveries(ctx context.Context, batch []*outbound.DeliverySettlement) (lost []*outbound.DeliverySettlement, _ error) {
	if err := q.call(ctx); err != nil {
		return nil, err
	}
	defer q.mu.Unlock()
	for _, s := range batch {
		r := q.leased(s.Delivery)
		if r == nil {
			lost = append(lost, s)
			continue
		}
		r.Status, r.RetryCount, r.LastError = s.Status, s.RetryCount, s.LastError
		if s.Attempt != nil {
			r.Attempts++
		}
		if s.Disable != "" {
			q.did.disabled[r.SubscriptionID] = s.Disable
		}
		q.setDue(r, s.DueAt)
		if s.DueAt.IsZero() {
			s.NextIsDue = q.advance(r)
		}
	}
	q.did.lost += len(lost)
	return lost, nil
}

func (q *deliveryQueue) ReleaseDeliveries(ctx context.Context, list []*eventhook.Delivery) error {
	if err := q.call(ctx); err != nil {
		return err
	}
	defer q.mu.Unlock()
	for _, d := range list {
		if r := q.leased(d); r != nil {
			if r.Status = eventhook.DeliveryPending; r.RetryCount > 0 {
				r.Status = eventhook.DeliveryFailed
			}
			q.setDue(r, time.Now())
			q.did.released++
		}
	}
	return nil
}

func (q *deliveryQueue) ReserveSends(ctx context.Context, list []outbound.SendReservation) ([]time.Time, error) {
	if err := q.call(ctx); err != nil {
		return nil, err
	}
	defer q.mu.Unlock()
	first := make([]time.Time, len(list))
	for i, r := range list {
		of := eventhook.SubscriptionID(r.DestinationID)
		first[i] = q.paced[of]
		if now := time.Now(); first[i].Before(now) {
			first[i] = now
		}
		q.paced[of] = first[i].Add(time.Duration(r.Count) * time.Second / time.Duration(r.PerSecond))
	}
	return first, nil
}

func (q *deliveryQueue) AbandonDeliveries(ctx context.Context, to eventhook.Destination, reason string, limit int) (n int, _ error) {
	if err := q.call(ctx); err != nil {
		return 0, err
	}
	defer q.mu.Unlock()
	if !q.deleted[to.SubscriptionID] {
		return 0, nil
	}
	for r := q.firstDue(to.SubscriptionID, true); r != nil; r = q.firstDue(to.SubscriptionID, true) {
		r.Status, r.LastError = eventhook.DeliveryDead, reason
		q.setDue(r, time.Time{})
		q.advance(r)
		if n++; n == limit {
			break
		}
	}
	q.did.abandoned += n
	return n, nil
}

func (q *deliveryQueue) DeliveriesWake() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.wake
}

func (q *deliveryQueue) wakeAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	close(q.wake)
	q.wake = make(chan struct{})
}

// set changes the behaviour of the queue while it runs.
func (q *deliveryQueue) set(change func(*deliveryQueue)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change(q)
}

// counts returns the number of deliveries of a subscription by status.
func (q *deliveryQueue) counts(of eventhook.SubscriptionID) map[eventhook.DeliveryStatus]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := map[eventhook.DeliveryStatus]int{}
	for _, r := range q.destinations[of] {
		n[r.Status]++
	}
	return n
}

// row returns a copy of a stored delivery.
func (q *deliveryQueue) row(id eventhook.DeliveryID) stored {
	q.mu.Lock()
	defer q.mu.Unlock()
	return *q.rows[id]
}
