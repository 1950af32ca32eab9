package route

import (
	"sync"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/wake"
)

// inbox holds leased events until a worker takes them. It is bounded by the number and the bytes of
// the events. Space is reserved before an event is leased, so that no instance holds a lease on an
// event that does not fit. It is safe for concurrent use.
type inbox struct {
	mu        sync.Mutex
	events    []*eventhook.Event
	reserved  int
	bytes     int
	maxEvents int
	maxBytes  int
	closed    bool
	wake      wake.Signal
}

func newInbox(maxEvents, maxBytes int) *inbox {
	return &inbox{maxEvents: maxEvents, maxBytes: maxBytes, wake: wake.New(1)}
}

// reserve reserves space for up to n events and returns the number that it reserved.
func (b *inbox) reserve(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.bytes >= b.maxBytes {
		return 0
	}
	granted := max(0, min(n, b.maxEvents-b.reserved))
	b.reserved += granted
	return granted
}

func (b *inbox) release(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reserved -= n
}

// put adds events with reserved space.
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
	b.wake.Notify()
}

// putBack adds events that were taken and not processed, even beyond the bounds.
func (b *inbox) putBack(events []*eventhook.Event) {
	b.mu.Lock()
	b.reserved += len(events)
	b.mu.Unlock()
	b.put(events)
}

// take removes up to n events and releases their space.
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
		b.wake.Notify()
	}
	b.reserved -= n
	for _, e := range batch {
		b.bytes -= size(e)
	}
	return batch
}

// close makes later reservations fail.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// size is the approximate memory of an event in bytes.
func size(e *eventhook.Event) int { return len(e.Headers) + len(e.Body) }
