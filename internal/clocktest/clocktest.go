// Package clocktest provides a clock for tests. Code under test takes its method Now
// as its source of time.
package clocktest

import (
	"sync"
	"time"
)

// Clock is a clock that stands still until a test advances it. It is safe for
// concurrent use.
type Clock struct {
	mu sync.Mutex
	at time.Time
}

// New returns a clock that shows at.
func New(at time.Time) *Clock { return &Clock{at: at} }

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// Advance moves the clock forward by d, or back if d is negative.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}
