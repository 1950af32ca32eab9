package outbound_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// Two dispatchers, one of which is restarted, send 2000 deliveries of 50 values in the order
// of each value, although attempts fail.
func TestOrderedDeliveriesArriveInTheirOrder(t *testing.T) {
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		const deliveries, values = 2000, 50
		random := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex // guards random
		s := w.subscribe(newTenant(), 10*time.Millisecond, func() eventhook.Attempt {
			mu.Lock()
			defer mu.Unlock()
			if random.IntN(20) == 0 {
				return respondsWith(503)()
			}
			return eventhook.Attempt{StatusCode: 200}
		})
		next, place := map[eventhook.OrderKey][]eventhook.DeliveryID{}, map[eventhook.DeliveryID]int{}
		for i := range deliveries {
			v := fmt.Sprint(i % values)
			id := w.storeOrdered(s, v)
			place[id] = len(next[eventhook.OrderKeyOf(v)])
			next[eventhook.OrderKeyOf(v)] = append(next[eventhook.OrderKeyOf(v)], id)
		}
		running, last := map[eventhook.OrderKey]bool{}, map[eventhook.OrderKey]int{}
		w.receivers[s.ID].begins = func(d *eventhook.Delivery) {
			if running[d.OrderKey] {
				t.Errorf("two deliveries of one value are sent at once")
			}
			if running[d.OrderKey] = true; place[d.ID] < last[d.OrderKey] {
				t.Errorf("delivery %d of a value was sent after delivery %d", place[d.ID], last[d.OrderKey])
			}
			last[d.OrderKey] = place[d.ID]
		}
		w.receivers[s.ID].ends = func(d *eventhook.Delivery) { running[d.OrderKey] = false }
		w.start()
		other := w.start()
		w.advance(2 * time.Second)
		other.stop()
		w.start()
		for range 600 {
			if w.counts(s.ID)[eventhook.DeliverySuccess] == deliveries {
				return
			}
			w.advance(time.Second)
		}
		t.Errorf("got %v, want %d successes", w.counts(s.ID), deliveries)
	})
}
