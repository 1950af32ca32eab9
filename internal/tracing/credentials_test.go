package tracing

import (
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// exportOne exports a span as the environment says, and returns the log.
func exportOne(t *testing.T) string {
	t.Helper()
	var logs strings.Builder
	tracer, err := Open(t.Context(), "1", slog.New(slog.NewTextHandler(&logs, nil)), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	tracer.recordMany(1)
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err) // an export that goes on may log
	}
	return logs.String()
}

// A proxy in front of a collector answers with the request, and so with the gateway's credentials.
func TestCredentialsOfTheCollectorAreNotLogged(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, _ := httputil.DumpRequest(r, false)
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write(request)
	}))
	defer proxy.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", proxy.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20first-t0p-secret,x=1")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=Bearer second-t0p-secret,api-key=third-t0p-secret==")
	if text := exportOne(t); strings.Contains(text, "t0p") || !strings.Contains(text, "Api-Key: [redacted]") || !strings.Contains(text, "403 Forbidden") {
		t.Errorf("logged %s, want the answer without credentials", text)
	}
}

// The exporter repeats a request, with all its headers, where its collector redirects it to, but
// only at the same address.
func TestCredentialsOfTheCollectorStayAtItsAddress(t *testing.T) {
	start := func(t *testing.T, withTLS bool, h http.HandlerFunc) *httptest.Server {
		t.Helper()
		s := httptest.NewUnstartedServer(h)
		t.Cleanup(s.Close)
		if s.EnableHTTP2 = withTLS; !withTLS {
			s.Start()
			return s
		}
		s.StartTLS()
		authority := filepath.Join(t.TempDir(), "authority.pem")
		if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", authority)
		return s
	}
	for claim, withTLS := range map[string]bool{"HTTP/1.1": false, "HTTP/2 with TLS": true} {
		t.Run(claim, func(t *testing.T) {
			var strays, moved atomic.Int64
			stranger := start(t, withTLS, func(http.ResponseWriter, *http.Request) { strays.Add(1) })
			to := stranger.URL
			collector := start(t, withTLS, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/moved" {
					moved.Add(1)
					return
				}
				http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			})
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=t0p-secret")
			if text := exportOne(t); strays.Load() != 0 || !strings.Contains(text, "redirects to another address") {
				t.Errorf("the other address got %d requests; logged %s", strays.Load(), text)
			}
			to = "/moved"
			if text := exportOne(t); moved.Load() != 1 || text != "" {
				t.Errorf("the same address got %d requests, want 1; logged %s", moved.Load(), text)
			}
		})
	}
}
