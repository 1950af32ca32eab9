package route

import (
	"sync"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/wake"
)

// inbox holds leased events that wait for a worker, bounded by their number
// and their bytes. Room is reserved before an event is leased, so that nobody
// takes a lease on work that does not fit.
type inbox struct {
	mu        sync.Mutex
	events    []*eventhook.Event
	reserved  int
	bytes     int
	most      int
	mostBytes int
	closed    bool
	filled    wake.Signal
}

func newInbox(most, mostBytes int) *inbox {
	return &inbox{most: most, mostBytes: mostBytes, filled: wake.New(1)}
}

// reserve grants room for up to n events.
func (b *inbox) reserve(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.bytes >= b.mostBytes {
		return 0
	}
	granted := max(0, min(n, b.most-b.reserved))
	b.reserved += granted
	return granted
}

func (b *inbox) release(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reserved -= n
}

// put adds events for which room was reserved.
func (b *inbox) put(events []*eventhook.Event) {
	if len(events) == 0 {
		return
	}
	b.mu.Lock()
	b.events = append(b.events, events...)
	for _, e := range events {
		b.bytes += size(e)
	}
	b.mu.Unlock()
	b.filled.Notify()
}

// putBack adds events that were taken and not processed, bound or no bound.
func (b *inbox) putBack(events []*eventhook.Event) {
	b.mu.Lock()
	b.reserved += len(events)
	b.mu.Unlock()
	b.put(events)
}

// take removes up to n events and gives their room back.
func (b *inbox) take(n int) []*eventhook.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, len(b.events))
	if n == 0 {
		return nil
	}
	batch := append([]*eventhook.Event(nil), b.events[:n]...)
	clear(b.events[:n])
	b.events = b.events[n:]
	if len(b.events) == 0 {
		b.events = nil
	} else {
		b.filled.Notify()
	}
	b.reserved -= n
	for _, e := range batch {
		b.bytes -= size(e)
	}
	return batch
}

// close refuses reservations from now on.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// size is the memory that an event holds here, but for a few words.
func size(e *eventhook.Event) int { return len(e.Headers) + len(e.Body) }
