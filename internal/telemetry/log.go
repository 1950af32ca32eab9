package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/eventhook/eventhook"
)

// NewLogger returns a structured logger with the given minimum level. The format is "json"
// or, for any other value, text. An unknown level means info. LogHandlerOf returns the handler of
// the logger, which changes its level.
func NewLogger(w io.Writer, level, format string) *slog.Logger {
	shared := &logState{}
	shared.level.Set(ParseLevel(level))
	options := &slog.HandlerOptions{Level: &shared.level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr { return shared.replace(a) }}
	var out slog.Handler = slog.NewTextHandler(w, options)
	if format == "json" {
		out = slog.NewJSONHandler(w, options)
	}
	return slog.New(&LogHandler{out, shared})
}

// LogHandler writes the lines of a logger of NewLogger. An attribute with the id of a tenant is
// written as the slug of the tenant. A text is cut after maxLogText bytes. Lines about errors of
// the database are held back during an outage; see Outage. Lines about a fault that many
// statements meet are written once in a while; see Repeats. It is safe for concurrent use.
type LogHandler struct {
	out    slog.Handler
	shared *logState
}

// logState is the state that a logger shares with the loggers of its With.
type logState struct {
	level   slog.LevelVar
	slug    atomic.Pointer[func(eventhook.TenantID) string]
	outage  atomic.Pointer[Outage]
	repeats atomic.Pointer[Repeats]
}

// LogHandlerOf returns the handler of a logger of NewLogger, and for other loggers a handler that
// no logger uses.
func LogHandlerOf(log *slog.Logger) *LogHandler {
	if h, ok := log.Handler().(*LogHandler); ok {
		return h
	}
	return &LogHandler{slog.DiscardHandler, &logState{}}
}

// Level returns the minimum level of the lines, which callers may change.
func (h *LogHandler) Level() *slog.LevelVar { return &h.shared.level }

// ResolveTenants makes the handler write the slugs that slug returns. slug must not block, since
// lines wait for it, and returns "" for a tenant whose slug it does not know. It may be called once.
func (h *LogHandler) ResolveTenants(slug func(eventhook.TenantID) string) { h.shared.slug.Store(&slug) }

// Enabled implements slog.Handler.
func (h *LogHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.out.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *LogHandler) Handle(ctx context.Context, r slog.Record) error {
	failure := failureOf(r)
	if failure == nil {
		return h.out.Handle(ctx, r)
	}
	if o := h.shared.outage.Load(); o != nil && o.holds(ctx, h.out, r, failure) {
		return nil
	}
	if repeats := h.shared.repeats.Load(); repeats != nil && repeats.holds(ctx, h.out, &r, failure) {
		return nil
	}
	return h.out.Handle(ctx, r)
}

// failureOf returns the last error among the attributes of a line, or nil.
func failureOf(r slog.Record) (failure error) {
	r.Attrs(func(a slog.Attr) bool {
		if a.Value.Kind() == slog.KindAny {
			if err, ok := a.Value.Any().(error); ok {
				failure = err
			}
		}
		return true
	})
	return failure
}

// maxLogText is the longest text of an attribute, in bytes. A stack fits.
const maxLogText = 16 << 10

// replace returns an attribute as it is written.
func (s *logState) replace(a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		if text := a.Value.String(); len(text) > maxLogText {
			return slog.String(a.Key, cut(text))
		}
	case slog.KindAny:
		switch v := a.Value.Any().(type) {
		case eventhook.TenantID:
			return slog.String(a.Key, s.slugOf(v))
		case error:
			return slog.String(a.Key, cut(v.Error()))
		}
	default: // numbers, times and the like are short
	}
	return a
}

// cut returns a text of maxLogText bytes at most, and says how long a longer one was.
func cut(text string) string {
	if len(text) <= maxLogText {
		return text
	}
	return strings.ToValidUTF8(text[:maxLogText], "") + fmt.Sprintf("… (%d bytes)", len(text))
}

// unknownTenant is logged for a tenant whose slug is not in memory.
const unknownTenant = "unknown"

// slugOf returns the slug of a tenant.
func (s *logState) slugOf(id eventhook.TenantID) string {
	if read := s.slug.Load(); read != nil {
		return cmp.Or((*read)(id), unknownTenant)
	}
	return unknownTenant
}

// WithAttrs implements slog.Handler.
func (h *LogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &LogHandler{h.out.WithAttrs(attrs), h.shared}
}

// WithGroup implements slog.Handler.
func (h *LogHandler) WithGroup(name string) slog.Handler {
	return &LogHandler{h.out.WithGroup(name), h.shared}
}
