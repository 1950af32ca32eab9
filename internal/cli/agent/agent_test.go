package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"

	agentcmd "github.com/eventhook/eventhook/internal/cli/agent"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/telemetry"
)

const key = "ehk_hush_hush"

func newCommand(stderr io.Writer, args ...string) *cobra.Command {
	cmd := agentcmd.New("1.2.3", func(_ io.Writer, level, format string) *slog.Logger {
		return telemetry.NewLogger(stderr, level, format)
	})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	return cmd
}

func TestWrongUsageSaysWhatToDo(t *testing.T) {
	clitest.ClearEnvironment(t)
	const server, tenant, allow = "--server=http://127.0.0.1:1", "--tenant=acme", "--allow=http://10.0.0.0/8"
	for _, c := range []struct {
		claim string
		key   string
		args  []string
		want  string
	}{
		{"no key", "", []string{server, tenant, allow}, "EVENTHOOK_KEY is required"},
		{"a key with a line end", key + "\nx", []string{server, tenant, allow}, "visible ASCII"},
		{"no server", key, []string{tenant, allow}, "--server is required"},
		{"no tenant", key, []string{server, allow}, "--tenant is required"},
		{"no destination", key, []string{server, tenant}, "--allow is required"},
		{"a wrong destination", key, []string{server, tenant, "--allow", "ci.internal"}, "--allow: \"ci.internal\" has no scheme"},
		{"no concurrency", key, []string{server, tenant, allow, "--concurrency=0"}, "--concurrency 0, want 1 to 1000"},
		{"a long lease", key, []string{server, tenant, allow, "--lease=1h"}, "--lease 1h0m0s, want"},
		{"a certificate without a key", key, []string{server, tenant, allow, "--client-cert=x.pem"}, "--client-key are required together"},
		{"a missing file", key, []string{server, tenant, allow, "--ca-file=nowhere.pem"}, "--ca-file: open nowhere.pem"},
		{"a missing certificate", key, []string{server, tenant, allow, "--client-cert=nowhere.pem", "--client-key=nowhere.pem"}, "--client-cert and --client-key: "},
		{"an unknown format", key, []string{server, tenant, allow, "--log-format=xml"}, "--log-format must be"},
		{"an unknown level", key, []string{server, tenant, allow, "--log-level=loud"}, "--log-level must be"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			t.Setenv("EVENTHOOK_KEY", c.key)
			err := newCommand(io.Discard, c.args...).Execute()
			coded, isUsage := err.(interface{ ExitCode() int })
			if !isUsage || coded.ExitCode() != 2 || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), key) {
				t.Errorf("got %v, want a usage error with %q and without the key", err, c.want)
			}
		})
	}
}

// startGateway starts a gateway with one delivery to a URL.
func startGateway(t *testing.T, url string) (server *httptest.Server, results chan string) {
	t.Helper()
	results = make(chan string, 1)
	var claims atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/tenants/acme/eventhook/agents/claim", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // then the server notices that the agent disconnects
		switch {
		case r.Header.Get("Authorization") != "Bearer "+key || r.UserAgent() != "eventhook-agent/1.2.3":
			w.WriteHeader(http.StatusUnauthorized)
		case claims.Add(1) == 1:
			_, _ = fmt.Fprintf(w, `{"items":[{"id":"d1","lease_token":1,"lease_seconds":120,"method":"POST","url":%q,"headers":{},"body_base64":"aGk=","timeout_seconds":30,"attempt":1}]}`, url)
		default:
			<-r.Context().Done()
		}
	})
	mux.HandleFunc("POST /api/tenants/acme/eventhook/agents/deliveries/results", func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		results <- string(raw)
		_, _ = io.WriteString(w, `{"items":[{"id":"d1","status":"accepted"}]}`)
	})
	server = httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server, results
}

var listening = regexp.MustCompile(`listen=(\S+)`)

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url) //nolint:noctx // in a test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

func TestTheCommandSendsAndServesItsMetricsAndHealth(t *testing.T) {
	clitest.ClearEnvironment(t)
	t.Setenv("EVENTHOOK_KEY", key)
	to := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	t.Cleanup(to.Close)
	gateway, results := startGateway(t, to.URL+"/hooks?token=hush_hush")
	log := &clitest.Buffer{}
	cmd := newCommand(log, "--server", gateway.URL, "--tenant=acme", "--allow", to.URL+"/hooks", "--listen=127.0.0.1:0", "--log-level=debug")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	if got := <-results; !strings.Contains(got, `"status_code":202`) {
		t.Errorf("got the report %s, want 202", got)
	}
	clitest.Eventually(t, "the agent logs that it is connected", func() bool { return strings.Contains(log.String(), "connected") })
	base := "http://" + listening.FindStringSubmatch(log.String())[1]
	var health struct{ Status string }
	if status, body := get(t, base+"/health"); status != 200 || json.Unmarshal([]byte(body), &health) != nil || health.Status != "ok" {
		t.Errorf("/health: got %d %s, want 200 and ok", status, body)
	}
	if status, _ := get(t, base+"/health/live"); status != 200 {
		t.Errorf("/health/live: got %d, want 200", status)
	}
	clitest.Eventually(t, "the metrics count the request and its report", func() bool {
		_, body := get(t, base+"/metrics")
		return strings.Contains(body, `eventhook_agent_requests_total{outcome="success"} 1`) && strings.Contains(body, `eventhook_agent_reports_total{outcome="accepted"} 1`) &&
			strings.Contains(body, `eventhook_agent_build_info{version="1.2.3"} 1`) && strings.Contains(body, `eventhook_agent_requests_total{outcome="blocked"} 0`)
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Contains(text, "hush_hush") || !strings.Contains(text, "reported=1") {
		t.Errorf("the log contains a secret, or not the number of results:\n%s", text)
	}
}
