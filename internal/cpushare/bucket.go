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
	perNanosecond float64 // steps by which the bucket refills in a nanosecond
	max           float64
	now           func() time.Time

	mu           sync.Mutex
	left         float64 // below 0 while the bucket is overdrawn
	refilledAt   time.Time
	lastRetry    time.Time // time of the last retry that NextRetry returned
	averageSteps float64   // moving average of the steps of a slow evaluation
}

func newBucket(config Config, now func() time.Time) *Bucket {
	max := float64(meter.StepsIn(config.Burst))
	return &Bucket{perNanosecond: config.Processors / float64(meter.StepTime), max: max, left: max, now: now, refilledAt: now()}
}

// Take takes steps if the bucket has them.
func (b *Bucket) Take(steps int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill()
	if b.left < float64(steps) {
		return false
	}
	b.left -= float64(steps)
	return true
}

// Return gives back unused steps.
func (b *Bucket) Return(steps int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += float64(steps)
}

// Charge takes steps that were already used. It may overdraw the bucket.
func (b *Bucket) Charge(steps int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill()
	b.left -= float64(steps)
}

// refill adds the steps for the time since the last refill.
func (b *Bucket) refill() {
	now := b.now()
	if passed := now.Sub(b.refilledAt); passed > 0 {
		b.left, b.refilledAt = min(b.left+float64(passed)*b.perNanosecond, b.max), now
	}
}

// BeginSlow admits an evaluation on the slow path if the bucket has the steps for a whole event. It
// then returns the bucket as a meter.Share that never refuses steps and may overdraw the bucket.
// Otherwise it returns nil and the time until the bucket has the steps.
func (b *Bucket) BeginSlow() (meter.Share, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill()
	if missing := meter.EventLimit - b.left; missing > 0 {
		return nil, b.timeOf(missing)
	}
	return overdraft{b}, 0
}

// timeOf returns the time in which the bucket refills by a number of steps.
func (b *Bucket) timeOf(steps float64) time.Duration {
	return time.Duration(math.Ceil(steps / b.perNanosecond))
}

// RecordSlow adds the steps of an evaluation on the slow path to the moving average.
func (b *Bucket) RecordSlow(steps int) {
	const window = 8 // weight of a new value: one eighth
	b.mu.Lock()
	defer b.mu.Unlock()
	b.averageSteps += (float64(steps) - b.averageSteps) / window
}

// Bounds of the postponement of an event.
const (
	minRetryGap = 10 * time.Millisecond // minimum time between two retries
	maxPostpone = 10 * time.Minute      // maximum time until a retry
)

// NextRetry returns when to retry an event for which the bucket had no steps. Retries are spread out:
// each is one average evaluation after the previous one, and none is before the bucket has the steps
// for an event. A retry that would be more than maxPostpone away is set to half of maxPostpone.
func (b *Bucket) NextRetry() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill()
	missing := max(meter.EventLimit-b.left, 0)
	whenRefilled := b.refilledAt.Add(b.timeOf(missing))
	gap := max(b.timeOf(b.averageSteps), minRetryGap)
	next := b.lastRetry.Add(gap)
	if next.Sub(b.refilledAt) > maxPostpone {
		next = b.refilledAt.Add(maxPostpone / 2)
	}
	if next.Before(whenRefilled) {
		next = whenRefilled
	}
	b.lastRetry = next
	return next
}

// overdraft is a Bucket that an evaluation may overdraw.
type overdraft struct{ *Bucket }

// Take takes steps and always succeeds.
func (o overdraft) Take(steps int) bool {
	o.Charge(steps)
	return true
}
