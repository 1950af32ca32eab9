// Package backoff computes the pauses between retries of a database statement, and
// waits for them.
package backoff

import (
	"context"
	"time"
)

// Doubling is a pause that doubles with each retry, up to a maximum. It has no jitter:
// the callers are the few loops of one instance, and each of them writes whole batches.
// Not safe for concurrent use.
type Doubling struct{ next, longest time.Duration }

// ForDatabase returns the pauses between retries of a database operation: 50 ms, doubling
// up to 2 s.
func ForDatabase() *Doubling { return &Doubling{next: 50 * time.Millisecond, longest: 2 * time.Second} }

// Next returns the pause before the next retry.
func (d *Doubling) Next() time.Duration {
	pause := d.next
	d.next = min(2*pause, d.longest)
	return pause
}

// Sleep waits for a duration. It returns false if ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
