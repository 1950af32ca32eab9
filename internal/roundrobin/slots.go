// Package roundrobin shares a limited number of slots between keys, such as tenants, so
// that a key with many callers cannot delay the callers of another key for long.
//
// Slots limits callers in total and per key, and assigns free slots to the keys in round
// robin. Queues has an independent queue for each key, with its own slots; callers of one
// key are served in the order in which they began to wait.
//
// The package starts no goroutine. A key without callers takes no memory.
package roundrobin

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Errors of Slots.Acquire.
var (
	ErrFull    = errors.New("too many callers of this key are waiting")
	ErrTimeout = errors.New("timed out waiting for a slot")
)

// Slots limits how many callers run at once, in total and per key. A caller without a
// slot waits in the queue of its key. A free slot goes to the next key in round robin
// that is below its limit, and within the key to the caller that has waited longest.
// Slots is safe for concurrent use.
type Slots[K comparable] struct {
	maxPerKey  int
	maxWaiting int // per key

	mu    sync.Mutex
	free  int
	keys  map[K]*keySlots
	order []K // keys with waiting callers, the next one first
}

// keySlots is the state of a key that has slots in use or waiting callers.
type keySlots struct {
	used    int
	waiting []chan struct{} // one for each waiting caller; closed when it gets a slot
}

// NewSlots returns total slots, of which one key can use maxPerKey at once. Up to
// maxWaiting callers of one key can wait. Numbers below 1 count as 1.
func NewSlots[K comparable](total, maxPerKey, maxWaiting int) *Slots[K] {
	return &Slots[K]{maxPerKey: max(maxPerKey, 1), maxWaiting: max(maxWaiting, 1), free: max(total, 1), keys: map[K]*keySlots{}}
}

// Acquire takes a slot for the key and waits for one up to timeout. If it returns nil,
// the caller must call Release. Acquire returns ErrFull if the queue of the key is full,
// ErrTimeout if no slot became free in time, or the error of ctx.
func (s *Slots[K]) Acquire(ctx context.Context, key K, timeout time.Duration) error {
	acquired, err := s.takeOrQueue(key)
	if acquired == nil {
		return err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-acquired:
		return nil
	case <-timer.C:
		err = ErrTimeout
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.cancelWait(key, acquired)
	return err
}

// Release returns a slot that Acquire took for the key.
func (s *Slots[K]) Release(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked(key)
}

// Waiting returns the number of callers of the key that wait for a slot.
func (s *Slots[K]) Waiting(key K) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.keys[key]; k != nil {
		return len(k.waiting)
	}
	return 0
}

// takeOrQueue takes a slot and returns nil, or queues the caller and returns the channel
// that is closed when the caller gets a slot. The error is ErrFull.
func (s *Slots[K]) takeOrQueue(key K) (acquired chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys[key]
	if k == nil {
		k = &keySlots{}
		s.keys[key] = k
	}
	// This overtakes no waiting caller of the key: while a slot is free, a key has waiting callers only if
	// it uses maxPerKey slots already.
	if s.free > 0 && k.used < s.maxPerKey {
		s.free--
		k.used++
		return nil, nil //nolint:nilnil // a slot was free
	}
	if len(k.waiting) >= s.maxWaiting {
		return nil, ErrFull
	}
	if len(k.waiting) == 0 {
		s.order = append(s.order, key)
	}
	acquired = make(chan struct{})
	k.waiting = append(k.waiting, acquired)
	return acquired, nil
}

// cancelWait removes a caller from the queue of its key. If the caller got a slot at the
// same moment, cancelWait releases that slot.
func (s *Slots[K]) cancelWait(key K, acquired chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys[key]
	i := slices.Index(k.waiting, acquired)
	if i < 0 {
		s.releaseLocked(key)
		return
	}
	k.waiting = slices.Delete(k.waiting, i, i+1)
	if len(k.waiting) == 0 {
		s.order = slices.DeleteFunc(s.order, func(other K) bool { return other == key })
	}
	s.deleteIfIdle(key, k)
}

func (s *Slots[K]) releaseLocked(key K) {
	k := s.keys[key]
	k.used--
	s.free++
	s.assignFree()
	s.deleteIfIdle(key, k)
}

// assignFree assigns free slots to waiting callers, one key after the other. A key that
// uses maxPerKey slots keeps its position in the order.
func (s *Slots[K]) assignFree() {
	for i := 0; s.free > 0 && i < len(s.order); {
		key := s.order[i]
		k := s.keys[key]
		if k.used >= s.maxPerKey {
			i++
			continue
		}
		s.free--
		k.used++
		close(k.waiting[0])
		k.waiting = slices.Delete(k.waiting, 0, 1)
		s.order = slices.Delete(s.order, i, i+1)
		if len(k.waiting) > 0 {
			s.order = append(s.order, key)
		}
	}
}

func (s *Slots[K]) deleteIfIdle(key K, k *keySlots) {
	if k.used == 0 && len(k.waiting) == 0 {
		delete(s.keys, key)
	}
}
