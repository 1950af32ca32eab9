package cpushare

import (
	"math"
	"sync"
	"time"

	"github.com/eventhook/eventhook/internal/meter"
)

// Bucket is one tenant's token bucket of steps. It implements meter.Share for the quick path. It is
// safe for concurrent use.
type Bucket struct {
	perNanosecond float64 // refilled steps
	max           float64
	now           func() time.Time

	mu           sync.Mutex
	left         float64 // below 0 while the bucket is overdrawn
	refilledAt   time.Time
	lastRetry    time.Time // retry time of the last postponed event
	averageSteps float64   // moving average of the steps of a slow evaluation
}

func newBucket(config Config, now func() time.Time) *Bucket {
	max := float64(meter.StepsIn(config.Burst))
	return &Bucket{perNanosecond: config.Processors / float64(meter.StepTime), max: max, left: max, now: now, refilledAt: now()}
}

// Take takes steps if the bucket has them.
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

// Return gives back unused steps.
func (s *Bucket) Return(steps int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left += float64(steps)
}

// Charge takes steps that were already used. It may overdraw the bucket.
func (s *Bucket) Charge(steps int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refill()
	s.left -= float64(steps)
}

// refill adds the steps for the time since the last refill.
func (s *Bucket) refill() {
	now := s.now()
	if passed := now.Sub(s.refilledAt); passed > 0 {
		s.left, s.refilledAt = min(s.left+float64(passed)*s.perNanosecond, s.max), now
	}
}

// BeginSlow admits an evaluation on the slow path if the bucket has the steps for a whole event. It
// then returns the bucket as a meter.Share that never refuses and may overdraw the bucket.
// Otherwise it returns nil and how long to wait for the steps.
func (s *Bucket) BeginSlow() (meter.Share, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refill()
	if missing := meter.EventLimit - s.left; missing > 0 {
		return nil, s.timeOf(missing)
	}
	return overdraft{s}, 0
}

// timeOf is the time in which the bucket refills by a number of steps.
func (s *Bucket) timeOf(steps float64) time.Duration {
	return time.Duration(math.Ceil(steps / s.perNanosecond))
}

// RecordSlow adds the steps of an evaluation on the slow path to the moving average.
func (s *Bucket) RecordSlow(steps int) {
	const window = 8 // weight of a new value: one eighth
	s.mu.Lock()
	defer s.mu.Unlock()
	s.averageSteps += (float64(steps) - s.averageSteps) / window
}

// Bounds of the postponement of an event.
const (
	minRetryGap = 10 * time.Millisecond // minimum pause after the retry of the event postponed before
	maxPostpone = 10 * time.Minute      // maximum postponement
)

// NextRetry returns when to retry an event for which the bucket had no steps: not before the bucket
// has the steps for one event, and not before the events that were postponed earlier have run. So a
// backlog returns spread out over time. Retries more than maxPostpone away are pulled in to half of
// it.
func (s *Bucket) NextRetry() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refill()
	missing := max(meter.EventLimit-s.left, 0)
	whenRefilled := s.refilledAt.Add(s.timeOf(missing))
	gap := max(s.timeOf(s.averageSteps), minRetryGap)
	next := s.lastRetry.Add(gap)
	if next.Sub(s.refilledAt) > maxPostpone {
		next = s.refilledAt.Add(maxPostpone / 2)
	}
	if next.Before(whenRefilled) {
		next = whenRefilled
	}
	s.lastRetry = next
	return next
}

// overdraft is a Bucket that an evaluation may overdraw.
type overdraft struct{ *Bucket }

// Take takes steps and always succeeds.
func (o overdraft) Take(steps int) bool {
	o.Charge(steps)
	return true
}
