package cpushare

import (
	"math"
	"sync"
	"time"

	"github.com/eventhook/eventhook/internal/meter"
)

// Bucket is one tenant's bucket of steps. It implements meter.Bucket for the
// quick path. Safe for concurrent use.
type Bucket struct {
	perNanosecond float64 // steps
	most          float64
	now           func() time.Time

	mu   sync.Mutex
	left float64 // below 0 when work that was begun took more
	at   time.Time
	next time.Time // when the last event that waits for the share is due
	each float64   // steps of an evaluation on the slow path, of late
}

func newShare(config Config, now func() time.Time) *Bucket {
	most := float64(meter.StepsIn(config.Burst))
	return &Bucket{perNanosecond: config.Processors / float64(meter.StepTime), most: most, left: most, now: now, at: now()}
}

// Take takes steps if the share has them.
func (s *Bucket) Take(steps int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refill()
	if s.left < float64(steps) {
		return false
	}
	s.left -= float64(steps)
	return true
}

// Return gives back steps that were taken and not used.
func (s *Bucket) Return(steps int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left += float64(steps)
}

// Charge takes steps that were used, and may overdraw the share.
func (s *Bucket) Charge(steps int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refill()
	s.left -= float64(steps)
}

// refill adds what time has brought.
func (s *Bucket) refill() {
	now := s.now()
	if passed := now.Sub(s.at); passed > 0 {
		s.left, s.at = min(s.left+float64(passed)*s.perNanosecond, s.most), now
	}
}

// BeginSlow returns the share as an evaluation on the slow path takes from it, if it
// has the steps for all that one event may take; else how long until it has.
// An evaluation that was begun is never refused, and may overdraw the share.
func (s *Bucket) BeginSlow() (meter.Share, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refill()
	if missing := meter.EventLimit - s.left; missing > 0 {
		return nil, s.timeOf(missing)
	}
	return overdraft{s}, 0
}

// timeOf is how long the share takes to refill by so many steps.
func (s *Bucket) timeOf(steps float64) time.Duration {
	return time.Duration(math.Ceil(steps / s.perNanosecond))
}

// RecordSlow notes how many steps an evaluation on the slow path took.
func (s *Bucket) RecordSlow(steps int) {
	const of = 8 // the last few count
	s.mu.Lock()
	defer s.mu.Unlock()
	s.each += (float64(steps) - s.each) / of
}

// Bounds of how long an event waits for the share before it is tried again: the
// least after the event before it, and the most in all.
const (
	leastApart  = 10 * time.Millisecond
	longestWait = 10 * time.Minute
)

// NextRetry is when an event that found the share used up is tried again: as soon as
// the share has the steps for it, and after the events that were told so before,
// so that a backlog does not come back all at once.
func (s *Bucket) NextRetry() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refill()
	soonest := s.at.Add(s.timeOf(max(meter.EventLimit-s.left, 0)))
	next := s.next.Add(max(s.timeOf(s.each), leastApart))
	if next.Sub(s.at) > longestWait {
		next = s.at.Add(longestWait / 2)
	}
	if next.Before(soonest) {
		next = soonest
	}
	s.next = next
	return next
}

// overdraft is a share that an evaluation may overdraw.
type overdraft struct{ *Bucket }

// Take takes steps, whatever the share has.
func (o overdraft) Take(steps int) bool {
	o.Charge(steps)
	return true
}
