package dbclock

import (
	"context"
	"errors"
	"testing"
	"time"
)

// world has the clocks of a machine and of a database. A reading of the database takes half of
// roundTrip on each way.
type world struct {
	t              *testing.T
	wall, database time.Time
	elapsed        time.Duration
	clock          *Clock
}

func newWorld(t *testing.T, ahead time.Duration) *world {
	noon := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	w := &world{t: t, wall: noon.Add(ahead), database: noon, elapsed: time.Minute}
	w.clock = newClock(func() time.Time { return w.wall }, func() time.Duration { return w.elapsed })
	return w
}

func (w *world) pass(d time.Duration) {
	w.wall, w.database, w.elapsed = w.wall.Add(d), w.database.Add(d), w.elapsed+d
}

// measure returns the skew.
func (w *world) measure(there, back time.Duration) time.Duration {
	w.t.Helper()
	m, err := w.clock.Measure(w.t.Context(), func(context.Context) (time.Time, error) {
		w.pass(there)
		at := w.database
		w.pass(back)
		return at, nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return m.Skew
}

// wantOff checks the difference between the clock and the database.
func (w *world) wantOff(when string, want time.Duration) {
	w.t.Helper()
	if got := w.clock.Now().Sub(w.database); got != want {
		w.t.Errorf("%s the clock is %s ahead of the database, want %s", when, got, want)
	}
}

func TestClockIsTheDatabasesAfterTheFirstMeasurement(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		w := newWorld(t, ahead)
		w.pass(time.Second)
		w.wantOff("before a measurement", ahead)
		if skew := w.measure(time.Millisecond, time.Millisecond); skew != -ahead {
			t.Errorf("the skew is %s, want %s", skew, -ahead)
		}
		w.wantOff("after a measurement", 0)
		w.pass(24 * time.Hour)
		w.wantOff("a day later", 0)
	}
}

func TestJumpsOfTheWallClockChangeNothing(t *testing.T) {
	w := newWorld(t, 0)
	w.measure(time.Millisecond, time.Millisecond)
	for _, jump := range []time.Duration{time.Hour, -2 * time.Hour} {
		w.wall = w.wall.Add(jump)
		w.wantOff("after a jump", 0)
		if skew := w.measure(time.Millisecond, time.Millisecond); skew != w.database.Sub(w.wall) {
			t.Errorf("the skew is %s, want %s", skew, w.database.Sub(w.wall))
		}
		w.wantOff("after the next measurement", 0)
	}
}

func TestSlowAnswersDoNotMoveTheClock(t *testing.T) {
	w := newWorld(t, 0)
	w.measure(time.Millisecond, time.Millisecond)
	w.measure(3*time.Second, 0)
	w.measure(0, 3*time.Second)
	w.wantOff("after slow answers", 0)
}

func TestFirstAnswerIsCorrectedByABetterOne(t *testing.T) {
	w := newWorld(t, 0)
	w.measure(3*time.Second, time.Second) // with the time to connect
	w.wantOff("after a slow answer", time.Second)
	w.measure(time.Millisecond, time.Millisecond)
	w.wantOff("after a fast answer", time.Millisecond)
}

func TestClockStepsWithTheDatabases(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		w := newWorld(t, 0)
		w.measure(time.Millisecond, time.Millisecond)
		w.database = w.database.Add(jump)
		w.measure(0, time.Millisecond)
		if off := w.clock.Now().Sub(w.database); off.Abs() > time.Millisecond {
			t.Errorf("after a jump of the database by %s the clock is %s ahead of it, want less than the round trip", jump, off)
		}
	}
}

func TestClockGoesOnWithoutTheDatabase(t *testing.T) {
	w := newWorld(t, time.Hour)
	w.measure(time.Millisecond, time.Millisecond)
	down := errors.New("the database is down")
	if _, err := w.clock.Measure(t.Context(), func(context.Context) (time.Time, error) { return time.Time{}, down }); !errors.Is(err, down) {
		t.Errorf("got %v, want the error of the database", err)
	}
	w.pass(time.Hour)
	w.wantOff("while the database is down", 0)
}

func BenchmarkNow(b *testing.B) {
	c := New(time.Now)
	b.Run("clock", func(b *testing.B) {
		for b.Loop() {
			_ = c.Now()
		}
	})
	b.Run("time.Now", func(b *testing.B) {
		for b.Loop() {
			_ = time.Now()
		}
	})
}
