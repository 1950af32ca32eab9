package telemetry

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
)

// LogLevel changes the minimum level of a log while the gateway runs. It is safe for concurrent
// use.
type LogLevel struct {
	log   *slog.Logger
	level *slog.LevelVar // of log
	now   func() time.Time

	mu         sync.Mutex
	configured slog.Level // the level of the configuration
	revert     *time.Timer
	revertsAt  time.Time // zero: the level stays
}

// NewLogLevel returns the LogLevel of a logger of NewLogger. Its configured level is the current one.
func NewLogLevel(log *slog.Logger, now func() time.Time) *LogLevel {
	level := LogHandlerOf(log).Level()
	return &LogLevel{log: log, level: level, now: now, configured: level.Level()}
}

// Configure sets the level that the configuration names. It ends a temporary level.
func (l *LogLevel) Configure(level slog.Level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.configured = level
	l.setLocked(level, 0)
}

// set sets a level, for a time if it is above 0. After that time the configured level is set.
func (l *LogLevel) set(level slog.Level, forTime time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setLocked(level, forTime)
}

func (l *LogLevel) setLocked(level slog.Level, forTime time.Duration) {
	if l.revert != nil {
		l.revert.Stop()
	}
	l.revert, l.revertsAt = nil, time.Time{}
	l.change(level)
	if forTime <= 0 {
		return
	}
	at := l.now().Add(forTime)
	l.revertsAt = at
	l.revert = time.AfterFunc(forTime, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.revertsAt.Equal(at) { // not replaced meanwhile
			l.setLocked(l.configured, 0)
		}
	})
}

// change sets a level and logs it. The line is written at each level, since a log that suddenly has
// fewer lines must say why.
func (l *LogLevel) change(level slog.Level) {
	former := l.level.Level()
	if former == level {
		return
	}
	l.level.Set(min(former, level))
	l.log.Warn("the level of the log changes", "from", levelName(former), "to", levelName(level))
	l.level.Set(level)
}

// levelView is the answer of /log-level.
type levelView struct {
	Level      string     `json:"level"`
	Configured string     `json:"configured"`
	RevertsAt  *time.Time `json:"reverts_at,omitempty"` // when the configured level is set again
}

func (l *LogLevel) view() levelView {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := levelView{Level: levelName(l.level.Level()), Configured: levelName(l.configured)}
	if !l.revertsAt.IsZero() {
		at := l.revertsAt.UTC().Truncate(time.Second)
		v.RevertsAt = &at
	}
	return v
}

func levelName(level slog.Level) string { return strings.ToLower(level.String()) }

// levels are the levels by the names of the setting log.level.
var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// maxLevelSeconds is the longest time of a temporary level.
const maxLevelSeconds = 24 * 60 * 60

func (l *LogLevel) serveGet(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, l.view())
}

func (l *LogLevel) servePut(w http.ResponseWriter, r *http.Request) {
	const maxBody = 1 << 10
	var want struct {
		Level      string `json:"level"`
		ForSeconds *int   `json:"for_seconds"`
	}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	body.DisallowUnknownFields()
	if body.Decode(&want) != nil || !errors.Is(body.Decode(&struct{}{}), io.EOF) {
		writeProblem(w, http.StatusBadRequest, `send {"level":"debug"}, or {"level":"debug","for_seconds":600}`)
		return
	}
	level, ok := levels[want.Level]
	switch {
	case !ok:
		writeProblem(w, http.StatusUnprocessableEntity, "level must be one of debug, info, warn, error")
		return
	case want.ForSeconds != nil && (*want.ForSeconds < 1 || *want.ForSeconds > maxLevelSeconds):
		writeProblem(w, http.StatusUnprocessableEntity, "for_seconds must be 1 to 86400")
		return
	}
	var forTime time.Duration
	if want.ForSeconds != nil {
		forTime = time.Duration(*want.ForSeconds) * time.Second
	}
	l.set(level, forTime)
	writeJSON(w, http.StatusOK, l.view())
}

// ParseLevel returns the level with a name of the setting log.level, and info for other names.
func ParseLevel(name string) slog.Level { return levels[name] }
