package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/eventhook/eventhook"
)

// Management is the handler of the management listener: /health/live,
// /health/ready, /metrics, /info and, if Profiler is set, Go's /debug/pprof. It has no
// authentication and must not be reachable from the internet.
type Management struct {
	Profiler bool // serve /debug/pprof; set before Handler is called

	metrics  *Metrics
	ping     func(context.Context) error
	info     map[string]string
	stopping atomic.Bool
}

// NewManagement returns the handler. ping returns nil if the instance can work. If it
// returns an eventhook.Error, /health/ready shows the error's message.
func NewManagement(metrics *Metrics, ping func(context.Context) error, info map[string]string) *Management {
	return &Management{metrics: metrics, ping: ping, info: info}
}

// Stopping makes /health/ready fail, so that load balancers send no more requests to the
// instance during its shutdown.
func (m *Management) Stopping() { m.stopping.Store(true) }

// Handler serves the management listener.
func (m *Management) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health/live", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "live"})
	})
	mux.HandleFunc("GET /health/ready", m.ready)
	mux.HandleFunc("GET /info", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, m.info) })
	mux.Handle("GET /metrics", m.metrics.Handler())
	if m.Profiler {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	}
	return mux
}

func (m *Management) ready(w http.ResponseWriter, r *http.Request) {
	const timeout = 2 * time.Second
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	if m.stopping.Load() {
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"status": "stopping"})
		return
	}
	if err := m.ping(ctx); err != nil {
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"status": reason(err)})
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
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
