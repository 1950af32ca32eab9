// Package dbclock is the clock of an instance: the time of its database, carried forward by the
// monotonic clock of the machine. All instances on a database have one time, to the error of a
// measurement, which is half of a round trip. A jump of the machine's wall clock changes nothing.
//
// A measurement says that the time of the database lies between two bounds. If the clock is within
// them, it does not change, so a slow answer does not move it; otherwise it steps to the nearer
// bound. When the clock of the database itself jumps, the clock steps with it at the next
// measurement. While the database cannot be reached, the clock goes on. Before the first
// measurement, it has the time of the machine.
package dbclock

import (
	"context"
	"sync/atomic"
	"time"
)

// Clock is safe for concurrent use. Create one with New.
type Clock struct {
	base    time.Time            // Now at an elapsed time of 0 without the offset
	wall    func() time.Time     // the wall clock of the machine
	elapsed func() time.Duration // since New, by the monotonic clock
	offset  atomic.Int64         // nanoseconds
	isSet   atomic.Bool          // after the first measurement
}

// New returns a clock with the time of a wall clock, time.Now outside of tests.
func New(wall func() time.Time) *Clock {
	start := time.Now()
	return newClock(wall, func() time.Duration { return time.Since(start) })
}

func newClock(wall func() time.Time, elapsed func() time.Duration) *Clock {
	return &Clock{base: wall().Round(0).Add(-elapsed()), wall: wall, elapsed: elapsed}
}

// Now returns the time. The time has no monotonic reading: the difference of two times includes the
// steps of the clock between them, and time.Since and deadlines of connections need time.Now.
func (c *Clock) Now() time.Time {
	return c.base.Add(c.elapsed() + time.Duration(c.offset.Load()))
}

// Measurement is a reading of the database's clock. Skew is the time of the database minus that of
// the machine's wall clock, and Step is by how much the clock changed.
type Measurement struct{ Skew, Step time.Duration }

// Measure reads the time of the database once and adjusts the clock. If the reading fails, the
// clock does not change.
func (c *Clock) Measure(ctx context.Context, read func(context.Context) (time.Time, error)) (m Measurement, err error) {
	before := c.elapsed()
	there, err := read(ctx)
	if err != nil {
		return m, err
	}
	after := c.elapsed()
	least, most := there.Sub(c.base.Add(after)), there.Sub(c.base.Add(before))
	middle := least + (most-least)/2
	was := time.Duration(c.offset.Load())
	offset := min(max(was, least), most)
	if !c.isSet.Swap(true) {
		offset = middle
	}
	c.offset.Store(int64(offset))
	return Measurement{Skew: c.base.Add(after + middle).Sub(c.wall()), Step: offset - was}, nil
}
