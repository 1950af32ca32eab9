// Package outboundtest checks implementations of the interfaces of package outbound.
package outboundtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// Queue is an outbound.Queue to check, with functions that control its environment.
type Queue struct {
	outbound.Queue
	Create func() eventhook.Destination          // returns a new destination without deliveries
	Store  func(to eventhook.Destination, n int) // stores n deliveries that are due now
	// StoreOrdered stores a delivery for each value, in their order, and returns their ids;
	// "" is no value.
	StoreOrdered func(to eventhook.Destination, values ...string) []eventhook.DeliveryID
	Delete       func(to eventhook.Destination)                      // deletes the destination, not its deliveries
	Status       func(id eventhook.DeliveryID) eventhook.Delivery    // as it is stored
	All          func(to eventhook.Destination) []eventhook.Delivery // as they are stored
	Now          func() time.Time
	Advance      func(by time.Duration)
}

// lease is the duration of the leases in all cases.
const lease = 30 * time.Second

// QueueCases maps each rule of outbound.Queue to the test that checks it. Each test needs
// a new queue.
var QueueCases = map[string]func(t *testing.T, q Queue){
	"a destination is listed while a delivery is due":           listed,
	"pages follow the order of ids":                             paged,
	"a claimed delivery is claimed once while its lease lasts":  claimedOnce,
	"a claim gets no more than it asks for":                     bounded,
	"a probe asks for tried deliveries first":                   triedFirst,
	"settling ends a delivery or schedules its retry":           settled,
	"a settlement without its lease changes nothing":            leaseLost,
	"a released delivery is due now":                            released,
	"a release without its lease changes nothing":               releasedLate,
	"reserved sends keep the rate":                              paced,
	"deliveries of a deleted destination are abandoned":         abandoned,
	"deliveries of a key are claimed one after another":         ordered,
	"a retry precedes the deliveries that wait":                 orderedRetry,
	"a dead delivery makes the next one of its key due":         orderedDead,
	"ordered deliveries of a deleted destination are abandoned": orderedAbandoned,
}

func (q Queue) due(t *testing.T, after eventhook.DestinationID, limit int) (ids []eventhook.DestinationID) {
	t.Helper()
	list, err := q.DueDestinations(t.Context(), after, limit)
	if err != nil {
		t.Fatalf("DueDestinations: %v", err)
	}
	for _, d := range list {
		if d.Destination().ID() != d.DestinationID {
			t.Errorf("got %+v, whose ids differ", d)
		}
		ids = append(ids, d.DestinationID)
	}
	return ids
}

func (q Queue) claim(t *testing.T, to eventhook.Destination, n int, triedFirst bool) []*eventhook.Delivery {
	t.Helper()
	list, err := q.ClaimDeliveries(t.Context(), []outbound.Claim{{DestinationID: to.ID(), Max: n, Lease: lease, TriedFirst: triedFirst}})
	if err != nil {
		t.Fatalf("ClaimDeliveries: %v", err)
	}
	for _, d := range list {
		if d.Destination() != to || d.DestinationID != to.ID() || d.Event == nil || d.Event.ID != d.EventID || d.Status != eventhook.DeliveryAcquired {
			t.Errorf("claimed %+v for %+v", d, to)
		}
		if want := q.Now().Add(lease); d.Lease.Until.Sub(want).Abs() > time.Millisecond || d.Lease.Token == 0 {
			t.Errorf("leased until %s with token %d, want until %s", d.Lease.Until, d.Lease.Token, want)
		}
	}
	return list
}

// settle settles deliveries with a status and returns the number of lost leases.
func (q Queue) settle(t *testing.T, status eventhook.DeliveryStatus, list ...*eventhook.Delivery) int {
	t.Helper()
	var batch []*outbound.DeliverySettlement
	for _, d := range list {
		s := &outbound.DeliverySettlement{Delivery: d, Status: status, Attempt: &eventhook.Attempt{StartedAt: q.Now(), StatusCode: 200}}
		if status != eventhook.DeliverySuccess {
			s.Attempt = &eventhook.Attempt{StartedAt: q.Now(), StatusCode: 503, ErrorClass: eventhook.ErrorHTTP5xx, Error: "it answered 503"}
			s.LastError = s.Attempt.Error
		}
		if status == eventhook.DeliveryFailed {
			s.RetryCount, s.DueAt = d.RetryCount+1, q.Now().Add(time.Minute)
		}
		batch = append(batch, s)
	}
	lost, err := q.SettleDeliveries(t.Context(), batch)
	if err != nil {
		t.Fatalf("SettleDeliveries: %v", err)
	}
	return len(lost)
}

func (q Queue) want(t *testing.T, id eventhook.DeliveryID, status eventhook.DeliveryStatus, attempts, retries int) {
	t.Helper()
	if d := q.Status(id); d.Status != status || d.Attempts != attempts || d.RetryCount != retries {
		t.Errorf("got %s after %d attempts and %d retries, want %s, %d and %d", d.Status, d.Attempts, d.RetryCount, status, attempts, retries)
	}
}

func listed(t *testing.T, q Queue) {
	to := q.Create()
	if got := q.due(t, eventhook.DestinationID{}, 10); len(got) != 0 {
		t.Errorf("without deliveries: got %v, want none", got)
	}
	q.Store(to, 2)
	for _, c := range []struct{ claim, want int }{{1, 1}, {1, 0}} {
		q.claim(t, to, c.claim, false)
		if got := q.due(t, eventhook.DestinationID{}, 10); len(got) != c.want {
			t.Errorf("got %d destinations, want %d", len(got), c.want)
		}
	}
	q.Advance(lease + time.Second)
	if got := q.due(t, eventhook.DestinationID{}, 10); !slices.Equal(got, []eventhook.DestinationID{to.ID()}) {
		t.Errorf("after the leases: got %v, want %s", got, to.ID())
	}
}

func paged(t *testing.T, q Queue) {
	var want []eventhook.DestinationID
	for range 5 {
		to := q.Create()
		q.Store(to, 1)
		want = append(want, to.ID())
	}
	slices.SortFunc(want, func(x, y eventhook.DestinationID) int { return slices.Compare(x[:], y[:]) })
	first := q.due(t, eventhook.DestinationID{}, 3)
	if got := append(first, q.due(t, first[len(first)-1], 3)...); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func claimedOnce(t *testing.T, q Queue) {
	to := q.Create()
	q.Store(to, 3)
	if got := q.claim(t, to, 10, false); len(got) != 3 {
		t.Fatalf("claimed %d, want 3", len(got))
	}
	if got := q.claim(t, to, 10, false); len(got) != 0 {
		t.Errorf("claimed %d again, want none", len(got))
	}
	q.Advance(lease + time.Second)
	if got := q.claim(t, to, 10, false); len(got) != 3 || got[0].Lease.Token != 2 {
		t.Errorf("after the lease: claimed %d, want 3 with another token", len(got))
	}
}

func bounded(t *testing.T, q Queue) {
	to, other := q.Create(), q.Create()
	q.Store(to, 5)
	q.Store(other, 5)
	list, err := q.ClaimDeliveries(t.Context(), []outbound.Claim{{DestinationID: to.ID(), Max: 2, Lease: lease}, {DestinationID: other.ID(), Max: 3, Lease: lease}})
	count := map[eventhook.DestinationID]int{}
	for _, d := range list {
		count[d.DestinationID]++
	}
	if err != nil || count[to.ID()] != 2 || count[other.ID()] != 3 || len(count) != 2 {
		t.Errorf("got %v, %v; want 2 and 3", count, err)
	}
}

func triedFirst(t *testing.T, q Queue) {
	to := q.Create()
	q.Store(to, 1)
	tried := q.claim(t, to, 1, true)
	if len(tried) != 1 {
		t.Fatalf("without earlier attempts: claimed %d, want 1", len(tried))
	}
	q.settle(t, eventhook.DeliveryFailed, tried...)
	q.Store(to, 3)
	q.Advance(2 * time.Minute)
	if got := q.claim(t, to, 1, true); len(got) != 1 || got[0].ID != tried[0].ID || got[0].RetryCount != 1 || got[0].Attempts != 1 {
		t.Errorf("claimed %+v, want the delivery with an earlier attempt", got)
	}
}

func settled(t *testing.T, q Queue) {
	to := q.Create()
	q.Store(to, 2)
	list := q.claim(t, to, 2, false)
	if lost := q.settle(t, eventhook.DeliverySuccess, list[0]) + q.settle(t, eventhook.DeliveryFailed, list[1]); lost != 0 {
		t.Errorf("%d leases were lost, want 0", lost)
	}
	q.want(t, list[0].ID, eventhook.DeliverySuccess, 1, 0)
	q.want(t, list[1].ID, eventhook.DeliveryFailed, 1, 1)
	if got := q.claim(t, to, 2, false); len(got) != 0 {
		t.Errorf("claimed %d before the retry is due, want 0", len(got))
	}
	q.Advance(time.Minute + time.Second)
	if got := q.claim(t, to, 2, false); len(got) != 1 || got[0].ID != list[1].ID {
		t.Errorf("claimed %+v, want the retry", got)
	}
}

func leaseLost(t *testing.T, q Queue) {
	to := q.Create()
	q.Store(to, 1)
	before := q.claim(t, to, 1, false)
	q.Advance(lease + time.Second)
	again := q.claim(t, to, 1, false)
	if lost := q.settle(t, eventhook.DeliverySuccess, before...); lost != 1 {
		t.Errorf("%d leases were lost, want 1", lost)
	}
	q.want(t, before[0].ID, eventhook.DeliveryAcquired, 0, 0)
	if lost := q.settle(t, eventhook.DeliverySuccess, again...); lost != 0 {
		t.Errorf("the current lease was lost")
	}
	if lost := q.settle(t, eventhook.DeliveryFailed, again...); lost != 1 {
		t.Errorf("a second settlement: %d leases were lost, want 1", lost)
	}
	q.want(t, before[0].ID, eventhook.DeliverySuccess, 1, 0)
}

func released(t *testing.T, q Queue) {
	to := q.Create()
	q.Store(to, 1)
	list := q.claim(t, to, 1, false)
	if err := q.ReleaseDeliveries(t.Context(), list); err != nil {
		t.Fatalf("ReleaseDeliveries: %v", err)
	}
	q.want(t, list[0].ID, eventhook.DeliveryPending, 0, 0)
	if got := q.claim(t, to, 1, false); len(got) != 1 {
		t.Errorf("claimed %d, want 1", len(got))
	}
}

func releasedLate(t *testing.T, q Queue) {
	to := q.Create()
	q.Store(to, 1)
	before := q.claim(t, to, 1, false)
	q.Advance(lease + time.Second)
	q.claim(t, to, 1, false)
	if err := q.ReleaseDeliveries(t.Context(), before); err != nil {
		t.Fatalf("ReleaseDeliveries: %v", err)
	}
	q.want(t, before[0].ID, eventhook.DeliveryAcquired, 0, 0)
}

func paced(t *testing.T, q Queue) {
	to, other := q.Create(), q.Create()
	for i, c := range []struct {
		to   eventhook.Destination
		n    int
		from time.Duration
	}{{to, 5, 0}, {to, 10, 500 * time.Millisecond}, {other, 1, 0}, {to, 1, 1500 * time.Millisecond}} {
		at, err := q.ReserveSends(t.Context(), []outbound.SendReservation{{DestinationID: c.to.ID(), Count: c.n, PerSecond: 10}})
		if err != nil || len(at) != 1 {
			t.Fatalf("ReserveSends: got %v, %v", at, err)
		}
		if got := at[0].Sub(q.Now()); (got - c.from).Abs() > 10*time.Millisecond {
			t.Errorf("request %d: the first send is in %s, want %s", i+1, got, c.from)
		}
	}
}

func abandoned(t *testing.T, q Queue) {
	to := q.Create()
	q.Store(to, 3)
	abandon := func(limit, want int) {
		t.Helper()
		if n, err := q.AbandonDeliveries(t.Context(), to, "it was deleted", limit); err != nil || n != want {
			t.Errorf("AbandonDeliveries: got %d, %v; want %d", n, err, want)
		}
	}
	abandon(10, 0) // the destination exists
	q.Delete(to)
	abandon(2, 2)
	abandon(2, 1)
	for _, d := range q.All(to) {
		if d.Status != eventhook.DeliveryDead || d.LastError != "it was deleted" {
			t.Errorf("got %s (%q), want it dead with the reason", d.Status, d.LastError)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.DueDestinations(ended, eventhook.DestinationID{}, 1); err == nil {
		t.Error("DueDestinations with a cancelled ctx succeeded")
	}
}
