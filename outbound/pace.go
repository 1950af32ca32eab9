package outbound

import "time"

// What pacing goes by.
const (
	paceSpan  = time.Second           // sends are reserved for so long ahead
	paceSlack = 20 * time.Millisecond // sends may be so late and yet not delay the next
	paceStale = time.Second           // a reserved time that was missed by more is lost
)

// pace has the times at which a subscription that allows so many sends a second
// may get the next: reserved from all instances' together, a few at a time.
type pace struct {
	every  time.Duration // 0: there is no limit
	next   time.Time
	left   int // sends that are reserved, the first of them at next
	asking bool
}

func (p *pace) set(perSecond int) {
	p.every = 0
	if perSecond > 0 {
		p.every = time.Second / time.Duration(perSecond)
	}
}

// isSpent reports whether times are to be reserved before anything is sent.
// What was reserved and missed is lost.
func (p *pace) isSpent(now time.Time) bool {
	if p.left > 0 && now.Sub(p.next) > paceStale {
		p.left = 0
	}
	return p.every > 0 && p.left == 0
}

// take uses a reserved send.
func (p *pace) take(now time.Time) {
	if p.every == 0 {
		return
	}
	p.left--
	if late := now.Add(-paceSlack); p.next.Before(late) {
		p.next = late
	}
	p.next = p.next.Add(p.every)
}

func (p *pace) grant(first time.Time, n int) {
	p.next, p.left, p.asking = first, n, false
}

// count is how many sends to reserve when so many wait.
func (p *pace) count(waiting int) int {
	return min(waiting, max(1, int(paceSpan/p.every)))
}
