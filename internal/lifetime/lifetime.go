// Package lifetime derives contexts that live longer than their parent, so that work
// that has begun can be completed while a process stops.
package lifetime

import (
	"context"
	"time"
)

// Extend returns a context that ends a duration after parent has ended, and carries the
// values of parent. It has no deadline before that. Callers must call cancel once the
// work is done; cancel ends the context at once.
func Extend(parent context.Context, by time.Duration) (ctx context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancel(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() {
		timer := time.NewTimer(by)
		defer timer.Stop()
		select {
		case <-timer.C:
			end()
		case <-ctx.Done():
		}
	})
	return ctx, func() { stop(); end() }
}
