package route

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/eventhook/eventhook"
)

// sized returns events of the given sizes.
func sized(sizes ...int) []*eventhook.Event {
	var list []*eventhook.Event
	for _, n := range sizes {
		list = append(list, &eventhook.Event{Payload: eventhook.Payload{Headers: make([]byte, n/2), Body: make([]byte, n-n/2)}})
	}
	return list
}

func wantReserved(t *testing.T, b *inbox, n, want int) {
	t.Helper()
	if got := b.reserve(n); got != want {
		t.Errorf("reserve(%d): got %d, want %d", n, got, want)
	}
}

func TestInboxIsBoundedByEvents(t *testing.T) {
	b := newInbox(5, math.MaxInt)
	wantReserved(t, b, 3, 3)
	wantReserved(t, b, 3, 2)
	wantReserved(t, b, 1, 0)
	wantReserved(t, b, 0, 0)
	b.release(1)
	wantReserved(t, b, 9, 1)
	b.put(sized(1, 1, 1, 1, 1))
	wantReserved(t, b, 1, 0)
	if got := len(b.take(2)); got != 2 {
		t.Errorf("took %d, want 2", got)
	}
	wantReserved(t, b, 9, 2)
}

func TestInboxIsBoundedByBytes(t *testing.T) {
	b := newInbox(100, 10)
	wantReserved(t, b, 4, 4)
	b.put(sized(4, 4))
	wantReserved(t, b, 1, 1)
	b.put(sized(2, 0, 0))
	wantReserved(t, b, 1, 0)
	b.take(1)
	wantReserved(t, b, 1, 1)
}

func TestInboxKeepsTheOrder(t *testing.T) {
	b := newInbox(10, math.MaxInt)
	b.reserve(5)
	b.put(nil)
	b.put(sized(1, 2, 3))
	b.put(sized(4, 5))
	var got []int
	for batch := b.take(2); len(batch) > 0; batch = b.take(2) {
		for _, e := range batch {
			got = append(got, size(e))
		}
	}
	if want := "[1 2 3 4 5]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	wantReserved(t, b, 100, 10)
}

func TestInboxSignals(t *testing.T) {
	b := newInbox(10, math.MaxInt)
	signalled := func() bool {
		select {
		case <-b.wake:
			return true
		default:
			return false
		}
	}
	b.reserve(3)
	b.put(sized(1, 1, 1))
	for _, c := range []struct {
		claim string
		act   func()
		want  bool
	}{
		{"after a put", func() {}, true},
		{"only once", func() {}, false},
		{"while events are left", func() { b.take(2) }, true},
		{"not when the inbox is empty", func() { b.take(2) }, false},
		{"not when it was empty before", func() { b.take(2) }, false},
	} {
		c.act()
		if got := signalled(); got != c.want {
			t.Errorf("%s: got signalled %t, want %t", c.claim, got, c.want)
		}
	}
}

func TestClosedInboxAcceptsReservedEvents(t *testing.T) {
	b := newInbox(10, math.MaxInt)
	b.reserve(1)
	b.close()
	wantReserved(t, b, 1, 0)
	b.put(sized(1))
	b.putBack(sized(2, 3))
	if got := len(b.take(math.MaxInt)); got != 3 {
		t.Errorf("took %d, want 3", got)
	}
	if b.reserved != 0 || b.bytes != 0 {
		t.Errorf("left: got %d reserved events, %d bytes; want none", b.reserved, b.bytes)
	}
}

func TestInboxIsBoundedWithConcurrentCallers(t *testing.T) {
	const most = 50
	b := newInbox(most, math.MaxInt)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				n := b.reserve(7)
				b.release(n / 2)
				b.put(sized(make([]int, n-n/2)...))
				b.mu.Lock()
				if b.reserved > most || len(b.events) > b.reserved {
					t.Errorf("got %d reserved, %d events; want at most %d, and no more events than reserved", b.reserved, len(b.events), most)
				}
				b.mu.Unlock()
				b.take(5)
			}
		})
	}
	all.Wait()
	b.take(math.MaxInt)
	wantReserved(t, b, most+1, most)
}
