package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// Outage replaces the log lines of an outage of the database by two: one when the database is
// gone, and one when it is back. It has three states:
//
//	up ─── a line about an error of the database ──▶ suspected ─── Probe fails ──▶ down
//	▲                                                    │                           │
//	└── Probe succeeds: the held lines are written ──────┴──── Probe succeeds ◀──────┘
//
// While the database is down, and for a short time after it is back, lines about its errors are
// written at debug level only, and counted. Lines wait at most for one probe. Run must be
// running; without it, no line is held back.
type Outage struct {
	// Probe connects to the database and returns nil if the gateway can use it. It must be
	// bounded in time.
	Probe func(context.Context) error
	// IsDown reports whether an error of a log line may be caused by an outage.
	IsDown func(error) bool
	Now    func() time.Time

	suspicions chan struct{} // has a token after the first suspicious line

	mu        sync.Mutex
	isRunning bool
	isDown    bool
	held      []heldLine
	dropped   int // lines beyond maxHeld, or while the database is down
	quietTill time.Time
	since     time.Time // of the first suspicious line
}

// heldLine is a line that waits for a probe, and the handler that writes it.
type heldLine struct {
	out    slog.Handler
	record slog.Record
}

const (
	maxHeld       = 200
	probeInterval = time.Second
	// quietAfter is how long after an outage lines about connections that broke in the outage
	// are still held back, and the line that the instance is ready again.
	quietAfter = 15 * time.Second
)

// WatchOutages makes the handler hold back lines about the outages that o finds. It must be
// called at most once, before o.Run.
func (h *LogHandler) WatchOutages(o *Outage) {
	o.suspicions = make(chan struct{}, 1)
	h.shared.outage.Store(o)
}

// holds reports whether a line is held back. A line that is counted in an outage is written at
// debug level.
func (o *Outage) holds(ctx context.Context, out slog.Handler, r slog.Record, err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.isRunning || r.Level < slog.LevelInfo || !o.concerns(err) {
		return false
	}
	if o.isDown {
		o.dropped++
		demoted(ctx, heldLine{out, r})
		return true
	}
	if len(o.held) == 0 {
		o.since = o.Now()
	}
	if len(o.held) < maxHeld {
		o.held = append(o.held, heldLine{out, r.Clone()})
	} else {
		o.dropped++
	}
	select {
	case o.suspicions <- struct{}{}:
	default:
	}
	return true
}

// concerns reports whether an error may be caused by an outage. During an outage, statements
// also fail because no connection is made in time.
func (o *Outage) concerns(err error) bool {
	return o.IsDown(err) || o.isDown && errors.Is(err, context.DeadlineExceeded)
}

// demoted writes a line at debug level.
func demoted(ctx context.Context, line heldLine) {
	line.record.Level = slog.LevelDebug
	if line.out.Enabled(ctx, slog.LevelDebug) {
		_ = line.out.Handle(ctx, line.record)
	}
}

// Run probes the database after suspicious lines, and logs outages, until ctx ends. It always
// returns nil.
func (o *Outage) Run(ctx context.Context, log *slog.Logger) error {
	o.mu.Lock()
	o.isRunning = true
	o.mu.Unlock()
	defer o.end()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-o.suspicions:
		}
		err := o.Probe(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			if n := o.release(ctx); n > 0 {
				log.Warn("too many lines waited for a probe of the database", "lines_dropped", n)
			}
			continue
		}
		o.begin(ctx)
		log.Error("the database cannot be used; lines about its errors are counted and not logged until it is back", "cause", err.Error())
		if !o.awaitDatabase(ctx) {
			return nil
		}
		downFor, lines := o.recover()
		log.Info("the database is back", "down_for", downFor.Round(time.Millisecond).String(), "lines_held_back", lines)
	}
}

// awaitDatabase probes the database until it can be used. It returns false if ctx ended before.
func (o *Outage) awaitDatabase(ctx context.Context) bool {
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		if o.Probe(ctx) == nil {
			return true
		}
	}
}

// release writes the held lines, since the database can be used. Right after an outage it writes
// them at debug level. It returns the number of lines that were not held because of maxHeld.
func (o *Outage) release(ctx context.Context) (dropped int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, line := range o.held {
		if o.Now().Before(o.quietTill) {
			demoted(ctx, line)
		} else {
			_ = line.out.Handle(ctx, line.record)
		}
	}
	dropped, o.held, o.dropped = o.dropped, nil, 0
	return dropped
}

// begin counts the held lines in an outage.
func (o *Outage) begin(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.isDown = true
	o.dropped += len(o.held)
	for _, line := range o.held {
		demoted(ctx, line)
	}
	o.held = nil
}

// recover ends an outage. It returns its duration and the number of lines that were held back.
func (o *Outage) recover() (downFor time.Duration, lines int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.Now()
	downFor, lines = now.Sub(o.since), o.dropped
	o.isDown, o.dropped, o.quietTill = false, 0, now.Add(quietAfter)
	select {
	case <-o.suspicions: // a token of before the outage
	default:
	}
	return downFor, lines
}

// end writes the held lines. Later lines are not held back.
func (o *Outage) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.isRunning = false
	for _, line := range o.held {
		_ = line.out.Handle(context.Background(), line.record)
	}
	o.held = nil
}
