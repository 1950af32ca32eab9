package telemetry_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/telemetry"
)

// Errors of the management listener have the form of the API's, and pages of other sites change
// nothing.
func TestTheManagementListenerAnswersProblems(t *testing.T) {
	log := telemetry.NewLogger(t.Output(), "info", "text")
	m := telemetry.NewManagement(telemetry.NewMetrics(), alive, nil)
	m.LogLevel, m.Log = telemetry.NewLogLevel(log, nil), log
	handler := m.Handler()
	for _, c := range []struct {
		method, path, origin string
		status               int
		allow                string
	}{
		{"GET", "/nothing", "", 404, ""},
		{"GET", "/", "", 404, ""},
		{"POST", "/health/ready", "", 405, "GET, HEAD"},
		{"POST", "/log-level", "", 405, "GET, HEAD, PUT"},
		{"PUT", "/log-level", "", 400, ""},
		{"GET", "/test-alert", "", 405, "DELETE, POST"},
		{"POST", "/test-alert", "https://evil.example", 403, ""},
		{"PUT", "/log-level", "https://evil.example", 403, ""},
	} {
		r := httptest.NewRequest(c.method, c.path, strings.NewReader("{"))
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		var problem struct {
			Title, Detail string
			Status        int
		}
		_ = json.Unmarshal(w.Body.Bytes(), &problem)
		if w.Code != c.status || problem.Status != c.status || problem.Detail == "" || problem.Title != http.StatusText(c.status) ||
			w.Header().Get("Content-Type") != "application/problem+json" || w.Header().Get("Allow") != c.allow {
			t.Errorf("%s %s: answered %d %v %s, want %d as a problem, Allow %q", c.method, c.path, w.Code, w.Header(), w.Body, c.status, c.allow)
		}
	}
}
