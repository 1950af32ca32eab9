package telemetry

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// testAlertTime is the duration of a test alert.
const testAlertTime = 10 * time.Minute

// testAlert is a gauge that an operator sets, to see an alert arrive. The rules of
// Prometheus raise the alert EventhookTestAlert while it is 1. Safe for concurrent use.
type testAlert struct {
	prometheus.Gauge

	mu  sync.Mutex
	end *time.Timer
}

// start sets the gauge for testAlertTime from now on.
func (a *testAlert) start(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopTimer()
	a.Set(1)
	a.end = time.AfterFunc(testAlertTime, func() { a.Set(0) })
	writeJSON(w, http.StatusOK, map[string]string{"status": "firing", "ends_at": time.Now().Add(testAlertTime).UTC().Format(time.RFC3339)})
}

// stop ends a test alert.
func (a *testAlert) stop(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopTimer()
	a.Set(0)
	writeJSON(w, http.StatusOK, map[string]string{"status": "ended"})
}

func (a *testAlert) stopTimer() {
	if a.end != nil {
		a.end.Stop()
	}
}
