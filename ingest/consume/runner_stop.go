package consume

import (
	"context"
	"slices"
)

// A consumer may need half a minute to stop: it settles messages and closes its connection. No method waits for that,
// except drain. Meanwhile the lease is renewed, so that no other instance consumes the source.

// held returns the consumers whose leases this instance has and keeps, the youngest first.
func (r *Runner) held() (list []*worker) {
	for _, w := range r.running {
		if w.isHeld && !w.isReleased {
			list = append(list, w)
		}
	}
	slices.SortFunc(list, func(a, b *worker) int { return b.startedAt.Compare(a.startedAt) })
	return list
}

// release stops consumers. When they have ended, reap ends their leases.
func release(list []*worker) {
	for _, w := range list {
		w.isReleased = true
		w.cancel()
	}
}

// releaseStuck releases at most n consumers that have no use of their leases, so that sources without an instance get
// their turn.
func (r *Runner) releaseStuck(n int) {
	for _, w := range r.held() {
		if n > 0 && w.isStuck() {
			release([]*worker{w})
			n--
		}
	}
}

// reap removes the consumers that have ended. It ends the leases that are released, and starts the
// consumers of the other leases that this instance has again.
func (r *Runner) reap(ctx context.Context) {
	var released []Lease
	for id, w := range r.running {
		select {
		case <-w.ended:
		default:
			continue
		}
		delete(r.running, id)
		switch {
		case w.isReleased:
			released = append(released, w.held)
		case w.isHeld:
			r.start(w.held)
		}
	}
	if len(released) == 0 {
		return
	}
	limited, cancel := r.exchange(ctx)
	defer cancel()
	if err := r.Store.ReleaseConsumers(limited, released); err != nil {
		r.Log.Warn("the leases of consumers could not be released; they expire", "error", err)
	}
}

// drain stops all consumers, and waits for their end.
func (r *Runner) drain(ctx context.Context) {
	for {
		for _, w := range r.running {
			release([]*worker{w})
		}
		r.reap(ctx)
		if len(r.running) == 0 {
			return
		}
		r.pause(ctx, nil)
		_ = r.renew(ctx) // leases that are lost end by themselves
	}
}

// notify adds an element to a channel that is empty.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
