package tracing

import (
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
)

// sdkLog passes the errors and warnings of the SDK to the log, each text at most once in a
// logInterval. It drops the values beside the text, which may be headers with credentials.
type sdkLog struct {
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex
	last map[string]time.Time
}

// divertSDKLog makes a log the destination of the SDK's errors, in this process.
func divertSDKLog(log *slog.Logger, now func() time.Time) {
	l := &sdkLog{log: log, now: now, last: map[string]time.Time{}}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { l.write(err.Error()) }))
	otel.SetLogger(logr.New(l))
}

func (l *sdkLog) write(text string) {
	const maxTexts, maxText = 100, 500
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if at, ok := l.last[text]; ok && now.Sub(at) < logInterval {
		return
	}
	if len(l.last) == maxTexts {
		clear(l.last)
	}
	l.last[text] = now
	l.log.Warn("OpenTelemetry reports a problem", "error", text[:min(len(text), maxText)])
}

// Init implements logr.LogSink.
func (l *sdkLog) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink. The SDK logs warnings at level 1.
func (l *sdkLog) Enabled(level int) bool { return level <= 1 }

// Info implements logr.LogSink.
func (l *sdkLog) Info(_ int, text string, _ ...any) { l.write(text) }

// Error implements logr.LogSink.
func (l *sdkLog) Error(err error, text string, _ ...any) {
	if err != nil {
		text += ": " + err.Error()
	}
	l.write(text)
}

// WithValues implements logr.LogSink.
func (l *sdkLog) WithValues(...any) logr.LogSink { return l }

// WithName implements logr.LogSink.
func (l *sdkLog) WithName(string) logr.LogSink { return l }
