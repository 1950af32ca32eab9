package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/eventhook/eventhook"
)

// Management is the handler of the management listener: /health/live,
// /health/ready, /metrics, /info, /test-alert and, if Profiler is set, Go's /debug/pprof. It has no
// authentication and must not be reachable from the internet.
type Management struct {
	Profiler bool         // serve /debug/pprof; set before Handler is called
	Log      *slog.Logger // of test alerts; set before Handler is called

	// LogLevel adds /log-level, which shows and changes the level of the log; nil for none.
	LogLevel *LogLevel

	metrics  *Metrics
	ping     func(context.Context) error
	info     func() map[string]any
	stopping atomic.Bool
}

// NewManagement returns the handler. ping returns nil if the instance can work. If it
// returns an eventhook.Error, /health/ready shows the error's message, and with an OutageError it names the outage. info returns the answer
// of /info.
func NewManagement(metrics *Metrics, ping func(context.Context) error, info func() map[string]any) *Management {
	return &Management{Log: slog.New(slog.DiscardHandler), metrics: metrics, ping: ping, info: info}
}

// Stopping makes /health/ready fail, so that load balancers send no more requests to the
// instance during its shutdown.
func (m *Management) Stopping() { m.stopping.Store(true) }

// Handler serves the management listener. Web pages of other origins, which a browser on the
// operators' network may show, cannot change anything.
func (m *Management) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health/live", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "live"})
	})
	mux.HandleFunc("GET /health/ready", m.ready)
	mux.HandleFunc("GET /info", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, m.info()) })
	mux.Handle("GET /metrics", m.metrics.Handler())
	if m.LogLevel != nil {
		mux.HandleFunc("GET /log-level", m.LogLevel.serveGet)
		mux.HandleFunc("PUT /log-level", m.LogLevel.servePut)
	}
	mux.HandleFunc("POST /test-alert", func(w http.ResponseWriter, r *http.Request) {
		m.Log.Info("a test alert was raised", "client", r.RemoteAddr)
		m.metrics.process.test.start(w, r)
	})
	mux.HandleFunc("DELETE /test-alert", m.metrics.process.test.stop)
	if m.Profiler {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	}
	return ownOrigin(withProblems(mux))
}

func (m *Management) ready(w http.ResponseWriter, r *http.Request) {
	status, outage := m.status(r.Context())
	code, answer := http.StatusOK, map[string]string{"status": status}
	if status != ready {
		code = http.StatusServiceUnavailable
	}
	if outage != "" {
		answer["outage"] = outage
	}
	writeJSON(w, code, answer)
}

// OutageError is the error of ping in an outage in which the instance still does its work.
type OutageError struct{ Outage string }

func (d *OutageError) Error() string { return d.Outage }

const ready = "ready"

// status returns ready, or the reason why the instance is not ready. outage names an outage in which
// it is ready.
func (m *Management) status(ctx context.Context) (status, outage string) {
	const timeout = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if m.stopping.Load() {
		return "stopping", ""
	}
	err := m.ping(ctx)
	if d, ok := errors.AsType[*OutageError](err); ok {
		return ready, d.Outage
	}
	if err != nil {
		return reason(err), ""
	}
	return ready, ""
}

// IsReady reports whether /health/ready answers 200. It returns within 2 seconds.
func (m *Management) IsReady() bool {
	status, _ := m.status(context.Background())
	return status == ready
}

// reason returns the message of an error for users.
func reason(err error) string {
	if e, ok := errors.AsType[*eventhook.Error](err); ok {
		return e.Message
	}
	return "the database does not answer"
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error means that the client has left
}
