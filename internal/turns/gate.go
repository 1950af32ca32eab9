package turns

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Errors of Enter.
var (
	ErrFull    = errors.New("too many callers of this key wait already")
	ErrTooLong = errors.New("no slot became free in time")
)

// Gate bounds how many callers act at once, in total and for each key. Callers
// without a slot wait in the queue of their key. A free slot goes to the waiting
// keys in rotation, and within a key to the caller that came first, so that a
// key with many callers delays another key by one slot at most. A Gate starts no
// goroutine and forgets a key that has neither slots nor waiting callers. It is
// safe for concurrent use.
type Gate[K comparable] struct {
	perKey   int
	mostWait int

	mu    sync.Mutex
	free  int
	keys  map[K]*gateKey
	order []K // keys with waiting callers, the next one first
}

type gateKey struct {
	slots   int             // in use
	waiting []chan struct{} // closed when the caller has got a slot
}

// NewGate gives all callers slots, those of one key at most perKey of them, and
// lets mostWait callers of one key wait. Numbers below 1 count as 1.
func NewGate[K comparable](slots, perKey, mostWait int) *Gate[K] {
	return &Gate[K]{perKey: max(perKey, 1), mostWait: max(mostWait, 1), free: max(slots, 1), keys: map[K]*gateKey{}}
}

// Enter takes a slot, and waits for one up to patience. Without an error the
// caller must Leave. The error is ErrFull, ErrTooLong or that of ctx.
func (g *Gate[K]) Enter(ctx context.Context, key K, patience time.Duration) error {
	turn, err := g.join(key)
	if turn == nil {
		return err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-turn:
		return nil
	case <-timer.C:
		err = ErrTooLong
	case <-ctx.Done():
		err = ctx.Err()
	}
	g.abandon(key, turn)
	return err
}

// Leave gives a slot back.
func (g *Gate[K]) Leave(key K) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leave(key)
}

// Waiting is how many callers of a key wait.
func (g *Gate[K]) Waiting(key K) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if k := g.keys[key]; k != nil {
		return len(k.waiting)
	}
	return 0
}

// join takes a slot, or returns the channel that tells when there is one.
func (g *Gate[K]) join(key K) (turn chan struct{}, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.keys[key]
	if k == nil {
		k = &gateKey{}
		g.keys[key] = k
	}
	// While a slot is free, every key with waiting callers has all its slots.
	if g.free > 0 && k.slots < g.perKey {
		g.free--
		k.slots++
		return nil, nil //nolint:nilnil // a slot was free
	}
	if len(k.waiting) >= g.mostWait {
		return nil, ErrFull
	}
	if len(k.waiting) == 0 {
		g.order = append(g.order, key)
	}
	turn = make(chan struct{})
	k.waiting = append(k.waiting, turn)
	return turn, nil
}

// abandon ends a wait. A slot that came at the same moment goes on to the next.
func (g *Gate[K]) abandon(key K, turn chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.keys[key]
	i := slices.Index(k.waiting, turn)
	if i < 0 {
		g.leave(key)
		return
	}
	k.waiting = slices.Delete(k.waiting, i, i+1)
	if len(k.waiting) == 0 {
		g.order = slices.DeleteFunc(g.order, func(other K) bool { return other == key })
	}
	g.forget(key, k)
}

func (g *Gate[K]) leave(key K) {
	k := g.keys[key]
	k.slots--
	g.free++
	g.handOut()
	g.forget(key, k)
}

// handOut gives free slots to waiting callers, one key after the other.
func (g *Gate[K]) handOut() {
	for i := 0; g.free > 0 && i < len(g.order); {
		key := g.order[i]
		k := g.keys[key]
		if k.slots >= g.perKey {
			i++
			continue
		}
		g.free--
		k.slots++
		close(k.waiting[0])
		k.waiting = slices.Delete(k.waiting, 0, 1)
		g.order = slices.Delete(g.order, i, i+1)
		if len(k.waiting) > 0 {
			g.order = append(g.order, key)
		}
	}
}

func (g *Gate[K]) forget(key K, k *gateKey) {
	if k.slots == 0 && len(k.waiting) == 0 {
		delete(g.keys, key)
	}
}
