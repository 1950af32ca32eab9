package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

func TestHealthOfAGateway(t *testing.T) {
	i := startInstance(t, pgtest.New(t))
	clitest.ClearEnvironment(t)
	t.Setenv("EVENTHOOK_MANAGEMENT_LISTEN", strings.TrimSuffix(strings.TrimPrefix(i.metrics, "http://"), "/metrics"))
	for _, c := range []struct {
		args []string
		want string
	}{{[]string{"health"}, "ready\n"}, {[]string{"health", "--live"}, "live\n"}} {
		if got := runCommand(c.args...); got.Code != 0 || got.Stdout != c.want {
			t.Errorf("%v: got %+v, want exit code 0 and %q", c.args, got, c.want)
		}
	}
	i.kill()
	if got := runCommand("health"); got.Code != 1 || !strings.Contains(got.Stderr, "no gateway listens at") {
		t.Errorf("after the end of the gateway: got %+v, want exit code 1 and the address", got)
	}
}

func TestHealthShowsWhyAGatewayIsNotReady(t *testing.T) {
	answers := map[string]string{"/health/ready": `{"status":"the database does not answer"}`, "/health/live": `{"status":"live"}`}
	status := map[string]int{"/health/ready": http.StatusServiceUnavailable, "/health/live": http.StatusOK}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status[r.URL.Path])
		_, _ = w.Write([]byte(answers[r.URL.Path]))
	})
	clitest.ClearEnvironment(t)
	server := httptest.NewTLSServer(handler)
	defer server.Close()
	t.Setenv("EVENTHOOK_MANAGEMENT_LISTEN", server.Listener.Addr().String())
	t.Setenv("EVENTHOOK_TLS_CERT_FILE", "cert.pem")
	t.Setenv("EVENTHOOK_TLS_KEY_FILE", "key.pem")
	if got := runCommand("health"); got.Code != 1 || !strings.Contains(got.Stderr, "the database does not answer") {
		t.Errorf("over TLS: got %+v, want exit code 1 and the reason", got)
	}
	if got := runCommand("health", "--live"); got.Code != 0 {
		t.Errorf("--live over TLS: got %+v, want exit code 0", got)
	}
	t.Setenv("EVENTHOOK_TLS_CERT_FILE", "")
	t.Setenv("EVENTHOOK_TLS_KEY_FILE", "")
	if got := runCommand("health"); got.Code != 1 || !strings.Contains(got.Stderr, "is not a gateway's management listener") {
		t.Errorf("HTTP to a TLS listener: got %+v, want exit code 1 and an explanation", got)
	}
	answers["/health/ready"] = "<html>"
	if got := runCommand("health"); got.Code != 1 {
		t.Errorf("another server: got %+v, want exit code 1", got)
	}
}

func TestHealthEndsAtItsTimeout(t *testing.T) {
	clitest.ClearEnvironment(t)
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	started := time.Now()
	got := runCommand("health", "--timeout", "50ms", "--management-listen", server.Listener.Addr().String())
	if got.Code != 1 || !strings.Contains(got.Stderr, "no answer within 50ms") || time.Since(started) > time.Minute {
		t.Errorf("got %+v after %s, want exit code 1 at the timeout", got, time.Since(started))
	}
}

func TestLoopbackOf(t *testing.T) {
	for host, want := range map[string]string{"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1", "10.0.0.5": "10.0.0.5", "localhost": "localhost"} {
		if got := loopbackOf(host); got != want {
			t.Errorf("%q: got %q, want %q", host, got, want)
		}
	}
}
