package schedule

import "time"

const (
	rateSpan  = time.Second           // sends are reserved for this long ahead
	rateSlack = 20 * time.Millisecond // a send that is at most this late does not delay the next one
	rateStale = time.Second           // a reserved time that was missed by more than this expires
)

// rate holds reserved send times of a destination with a limit per second. The
// reservations are made in the database, for all instances together.
type rate struct {
	interval  time.Duration // between two sends; 0: no limit
	next      time.Time     // the first reserved time
	reserved  int           // number of reserved sends from next on, an interval apart
	requested bool          // a reservation was requested and not granted yet
}

func (r *rate) set(perSecond int) {
	r.interval = 0
	if perSecond > 0 {
		r.interval = time.Second / time.Duration(perSecond)
	}
}

// allows reports whether a send may begin now.
func (r *rate) allows(now time.Time) bool {
	return r.interval == 0 || !r.isSpent(now) && !now.Before(r.next)
}

// isSpent reports whether send times must be reserved before the next send. It drops
// reservations that were missed.
func (r *rate) isSpent(now time.Time) bool {
	if r.reserved > 0 && now.Sub(r.next) > rateStale {
		r.reserved = 0
	}
	return r.interval > 0 && r.reserved == 0
}

// use consumes one reserved send.
func (r *rate) use(now time.Time) {
	if r.interval == 0 {
		return
	}
	r.reserved--
	if earliest := now.Add(-rateSlack); r.next.Before(earliest) {
		r.next = earliest
	}
	r.next = r.next.Add(r.interval)
}

func (r *rate) grant(first time.Time, n int) { r.next, r.reserved, r.requested = first, n, false }

// count returns how many sends to reserve for a number of waiting deliveries.
func (r *rate) count(waiting int) int { return min(waiting, max(1, int(rateSpan/r.interval))) }

// begins returns how many reserved sends may begin before a time.
func (r *rate) begins(before, now time.Time) int {
	if r.isSpent(now) || before.Before(r.next) {
		return 0
	}
	return min(r.reserved, 1+int(before.Sub(r.next)/r.interval))
}
