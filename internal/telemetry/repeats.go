package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Repeats bounds the lines about a fault that many loops and requests meet at once, such as a full
// disk: one line in an Interval is written, with the number of lines held back since the one before.
// The other lines are written at debug level only.
type Repeats struct {
	// IsRepeated reports whether an error of a log line is the fault.
	IsRepeated func(error) bool
	Interval   time.Duration
	Now        func() time.Time

	mu     sync.Mutex
	nextAt time.Time // of the next line
	held   int       // lines since the last written one
}

// BoundRepeats makes the handler bound lines as b says. It may be called once.
func (h *LogHandler) BoundRepeats(b *Repeats) { h.shared.repeats.Store(b) }

// holds reports whether a line is held back. It adds the number of lines held back to a line that
// is not.
func (b *Repeats) holds(ctx context.Context, out slog.Handler, r *slog.Record, err error) bool {
	if r.Level < slog.LevelInfo || !b.IsRepeated(err) {
		return false
	}
	held, isDue := b.next()
	if !isDue {
		demoted(ctx, heldLine{out, *r})
		return true
	}
	if held > 0 {
		*r = r.Clone()
		r.AddAttrs(slog.Int("lines_held_back", held))
	}
	return false
}

// next reports whether a line is due, and the number of lines held back before it.
func (b *Repeats) next() (held int, isDue bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Now()
	if now.Before(b.nextAt) {
		b.held++
		return 0, false
	}
	held, b.held, b.nextAt = b.held, 0, now.Add(b.Interval)
	return held, true
}
