package route

import (
	"sync"
	"time"
)

// A source's routes may take half of one worker's time, after a burst.
const (
	allowedBurst = 2 * time.Second
	allowedShare = 2 // one part of
)

// allowance is the time that a source's filters and transforms may still
// take. Its events wait when it is used up, so that others' do not. Safe for
// concurrent use; the zero allowance is full.
type allowance struct {
	mu    sync.Mutex
	spent time.Duration
	at    time.Time
}

// spend notes that time was taken until a moment.
func (a *allowance) spend(d time.Duration, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refill(now)
	a.spent += d
}

// isUsedUp reports whether there is no time left at a moment.
func (a *allowance) isUsedUp(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refill(now)
	return a.spent > allowedBurst
}

func (a *allowance) refill(now time.Time) {
	if passed := now.Sub(a.at); passed > 0 {
		a.spent, a.at = max(0, a.spent-passed/allowedShare), now
	}
}
