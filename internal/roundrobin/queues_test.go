package roundrobin_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/eventhook/eventhook/internal/roundrobin"
)

func TestAQueueServesCallersInTheOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := roundrobin.NewQueues[string, []int](1)
		first := queues.Open("k")
		<-first.Slot()
		var callers sync.WaitGroup
		for i := range 50 {
			callers.Go(func() {
				q := queues.Open("k")
				defer queues.Close("k")
				<-q.Slot()
				defer q.Release()
				q.State = append(q.State, i)
			})
			synctest.Wait()
		}
		if n := queues.Callers("k"); n != 51 {
			t.Errorf("got %d callers, want 51", n)
		}
		first.Release()
		callers.Wait()
		<-first.Slot()
		if !slices.IsSorted(first.State) || len(first.State) != 50 {
			t.Errorf("callers got the slot in the order %v, want all 50 in the order of arrival", first.State)
		}
	})
}

func TestAQueueHasTheGivenNumberOfSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots = 3
		queues := roundrobin.NewQueues[string, struct{}](slots)
		var mu sync.Mutex
		holding, maxHolding := 0, 0
		next := make(chan struct{})
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() {
				q := queues.Open("k")
				defer queues.Close("k")
				<-q.Slot()
				mu.Lock()
				holding++
				maxHolding = max(maxHolding, holding)
				mu.Unlock()
				<-next
				mu.Lock()
				holding--
				mu.Unlock()
				q.Release()
			})
		}
		for range 10 {
			synctest.Wait()
			next <- struct{}{}
		}
		callers.Wait()
		if maxHolding != slots {
			t.Errorf("%d callers held a slot at once, want %d", maxHolding, slots)
		}
	})
}

func TestQueuesAreIndependentAndDeletedAfterTheLastClose(t *testing.T) {
	queues := roundrobin.NewQueues[string, int](1)
	for i := range 3 {
		q := queues.Open(fmt.Sprint(i))
		<-q.Slot() // would block if the queues shared a slot
		if q.State != 0 {
			t.Errorf("the state is %d, want the zero value of a new queue", q.State)
		}
		q.State = 7
		q.Release()
		queues.Close(fmt.Sprint(i))
	}
	q := queues.Open("0")
	if q.State != 0 || queues.Callers("0") != 1 || queues.Callers("1") != 0 {
		t.Errorf("got state %d and %d and %d callers, want a new queue", q.State, queues.Callers("0"), queues.Callers("1"))
	}
}
