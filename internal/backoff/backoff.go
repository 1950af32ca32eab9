// Package backoff computes the pauses between retries, of database statements and of calls to a
// gateway, and waits for them.
package backoff

import (
	"context"
	"math/rand/v2"
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

// Calls computes the pauses between retries of a call to a gateway: 500 ms, doubling up to 30 s,
// less a jitter of up to one half, which spreads the retries of several callers. The zero Calls is
// ready for use. Not safe for concurrent use.
type Calls struct{ Tries int }

const (
	firstPause    = 500 * time.Millisecond
	longestPause  = 30 * time.Second
	maxRetryAfter = 10 * time.Minute
)

// Next returns the pause before the next retry. It is at least retryAfter, up to 10 minutes.
func (c *Calls) Next(retryAfter time.Duration) time.Duration {
	const maxDoublings = 10
	full := min(firstPause<<min(c.Tries, maxDoublings), longestPause)
	c.Tries++
	pause := full/2 + rand.N(full/2) //nolint:gosec,mnd // jitter, not a secret; a half
	return max(pause, min(retryAfter, maxRetryAfter))
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
