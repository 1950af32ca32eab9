package telemetry

import (
	"context"
	"log/slog"
	"time"
)

// Watch says how often metrics are read from the database. Failures are logged at the level
// debug: metrics show the state of the database, too.
type Watch struct {
	Interval time.Duration
	Log      *slog.Logger
}

// run calls read at once and at each interval until ctx ends. It always returns nil.
func (w Watch) run(ctx context.Context, read func()) error {
	tick := time.NewTicker(w.Interval)
	defer tick.Stop()
	for {
		read()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// succeeded reports whether err is nil, and logs it otherwise.
func (w Watch) succeeded(ctx context.Context, act string, err error) bool {
	if err != nil && ctx.Err() == nil {
		w.Log.Debug("cannot "+act+" for the metrics", "error", err)
	}
	return err == nil
}
