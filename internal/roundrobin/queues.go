package roundrobin

import "sync"

// Queues has a Queue for each key that has callers. The queues are independent of each
// other. Queues is safe for concurrent use.
type Queues[K comparable, S any] struct {
	slots  int // of each queue
	mu     sync.Mutex
	queues map[K]*Queue[S]
}

// NewQueues returns queues with the given number of slots each.
func NewQueues[K comparable, S any](slots int) *Queues[K, S] {
	return &Queues[K, S]{slots: slots, queues: map[K]*Queue[S]{}}
}

// Queue serves the callers of one key in the order in which they began to wait. It exists
// from the first Open of its key to the last Close.
type Queue[S any] struct {
	// State is passed from one holder of a slot to the next; a new queue has the zero
	// value. Only a caller with a slot may use it. If the queue has more than one slot,
	// the callers must synchronize their access.
	State S

	free    chan struct{} // holds a token for each free slot
	callers int           // guarded by Queues.mu
}

// Slot returns a channel from which the caller receives once to acquire a slot. Every
// receive must be paired with a Release.
func (q *Queue[S]) Slot() <-chan struct{} { return q.free }

// Release returns a slot; the caller that has waited longest gets it.
func (q *Queue[S]) Release() { q.free <- struct{}{} }

// Open returns the queue of a key. Every Open must be paired with a Close.
func (s *Queues[K, S]) Open(key K) *Queue[S] {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, ok := s.queues[key]
	if !ok {
		q = &Queue[S]{free: make(chan struct{}, s.slots)}
		for range s.slots {
			q.Release()
		}
		s.queues[key] = q
	}
	q.callers++
	return q
}

// Close ends the caller's use of the queue that Open returned. A caller that acquired a
// slot must release the slot first.
func (s *Queues[K, S]) Close(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[key]
	if q.callers--; q.callers == 0 {
		delete(s.queues, key)
	}
}

// Callers returns how many callers have the queue of a key open: they wait for a slot or
// hold one.
func (s *Queues[K, S]) Callers(key K) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q, ok := s.queues[key]; ok {
		return q.callers
	}
	return 0
}
