package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/eventhook/eventhook/internal/dbclock"
	"github.com/eventhook/eventhook/internal/pg"
)

// clock is the clock of the process. Tests replace it by one whose wall clock jumps.
var clock = dbclock.New(time.Now)

// now returns the time of the database, so that all instances have one time. Deadlines of
// connections need time.Now.
func now() time.Time { return clock.Now() }

// syncClock sets the clock to the time of a database. The first measurement includes the time to
// connect, and the second corrects it.
func syncClock(ctx context.Context, db *pg.DB) error {
	for range 2 {
		if _, err := clock.Measure(ctx, db.Time); err != nil {
			return err
		}
	}
	return nil
}

// A difference from the database's clock above maxSkew is logged, and so is a step of the
// database's clock above maxStep.
const (
	maxSkew = 5 * time.Second
	maxStep = time.Second
)

// clockWatch keeps the clock at the time of the database. ClockSkew is called by one goroutine.
type clockWatch struct {
	*pg.DB
	log   *slog.Logger
	isOff bool // by more than maxSkew at the last measurement
}

// ClockSkew measures the time of the database, adjusts the clock, and returns the time of the
// database minus that of the machine.
func (w *clockWatch) ClockSkew(ctx context.Context) (time.Duration, error) {
	m, err := clock.Measure(ctx, w.Time)
	if err != nil {
		return 0, err
	}
	if m.Step.Abs() > maxStep {
		w.log.Warn("the clock of the database jumped, and the gateway follows it; leases and retries end by the new time", "step", m.Step)
	}
	isOff := m.Skew.Abs() > maxSkew
	switch {
	case isOff && !w.isOff:
		w.log.Warn("the clock of this machine and that of the database differ; the gateway uses the time of the database, so check both", "skew", m.Skew)
	case !isOff && w.isOff:
		w.log.Info("the clocks of this machine and of the database agree again", "skew", m.Skew)
	}
	w.isOff = isOff
	return m.Skew, nil
}
