package telemetry

import (
	"encoding/json"
	"net/http"
)

// writeProblem answers an error as the API does (RFC 9457).
func writeProblem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"title": http.StatusText(status), "status": status, "detail": detail}) // an error means that the client has left
}

// ownOrigin refuses changes that a browser asks for on behalf of a page of another origin.
func ownOrigin(h http.Handler) http.Handler {
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, http.StatusForbidden, "the request comes from a web page of another origin")
	}))
	return guard.Handler(h)
}

// withProblems answers 404, and 405 with Allow, as problems.
func withProblems(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		answer := headersOnly{ResponseWriter: w}
		refuse.ServeHTTP(&answer, r)
		detail := "no such path; the management listener serves /health/live, /health/ready, /metrics, /info, /log-level and /test-alert"
		if answer.status == http.StatusMethodNotAllowed {
			detail = "use one of the methods " + w.Header().Get("Allow")
		}
		writeProblem(w, answer.status, detail)
	})
}

// headersOnly keeps the status of an answer and omits its body.
type headersOnly struct {
	http.ResponseWriter
	status int
}

func (h *headersOnly) WriteHeader(status int) { h.status = status }

func (h *headersOnly) Write(b []byte) (int, error) { return len(b), nil }
