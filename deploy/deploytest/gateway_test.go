package deploytest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/send"
	"github.com/eventhook/eventhook/internal/pgembed"
)

const (
	adminKey     = "ehk_an-admin-key-for-tests"
	sourceSecret = "a-secret-for-tests"
)

// The promise makes the processor plan the events: a plan with a promise is not stored with its
// event.
const tenants = `
tenants:
  - slug: acme
    sources:
      - slug: github
        provider: github
        secrets: [` + sourceSecret + `]
        rate_limit: {requests_per_second: 1000, requests_per_minute: 60000, burst_size: 1000}
        routes:
          - {name: pushes, filter_event_types: [push], targets: [{type: task, task_kind: build}, {type: promise, idempotency_key_path: body.ref}]}
`

// gateway is a process of the gateway with its private PostgreSQL.
type gateway struct {
	url        string // of the API
	management string // host and port of the management listener
}

// startProcess starts a program that ends with the test. It returns its standard output.
func startProcess(t *testing.T, cmd *exec.Cmd) io.Reader {
	t.Helper()
	logs := &clitest.Buffer{}
	cmd.Stderr = logs
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		const patience = 20 * time.Second
		kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		kill.Stop()
		if t.Failed() {
			t.Logf("log of %s:\n%s", cmd.Path, logs)
		}
	})
	return out
}

// startGateway builds the gateway and starts it without DATABASE_URL.
func startGateway(t *testing.T) gateway {
	t.Helper()
	if _, err := pgembed.FindBinaries(); err != nil && os.Getenv("CI") != "true" {
		t.Skipf("the private PostgreSQL needs the programs of PostgreSQL: %v", err)
	}
	bin := filepath.Join(t.TempDir(), "eventhook")
	if out, err := exec.Command("go", "build", raceFlag, "-o", bin, "../../cmd/eventhook").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	dir, err := os.MkdirTemp("", "eventhook-deploytest-")
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pgembed.Discard(dir) })
	cmd := exec.Command(bin, "serve", "--listen", "127.0.0.1:0", "--management-listen", "127.0.0.1:0",
		"--apply", clitest.WriteFile(t, "tenants.yaml", tenants))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "EVENTHOOK_DATA_DIR=" + dir, "EVENTHOOK_ADMIN_KEY=" + adminKey,
		"EVENTHOOK_METRICS_TENANT_LABEL=true", "EVENTHOOK_OUTBOUND_ALLOWED_CIDRS=127.0.0.0/8"}
	lines := bufio.NewScanner(startProcess(t, cmd))
	var g gateway
	for g.management == "" && lines.Scan() {
		if _, url, ok := strings.Cut(lines.Text(), "webhooks and API  "); ok {
			g.url = url
		}
		if _, url, ok := strings.Cut(lines.Text(), "health, metrics   http://"); ok {
			g.management = strings.TrimSuffix(url, "/metrics")
		}
	}
	if g.management == "" {
		t.Fatal("the gateway did not start")
	}
	return g
}

var client = &http.Client{Timeout: 20 * time.Second}

// request sends a request and fails the test unless the answer has the status.
func request(ctx context.Context, r *http.Request, status int) ([]byte, error) {
	resp, err := client.Do(r.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != status {
		err = fmt.Errorf("%s %s answered %d %s, want %d", r.Method, r.URL, resp.StatusCode, body, status)
	}
	return body, err
}

// post calls the API of the tenant.
func (g gateway) post(ctx context.Context, path, body string, status int) error {
	r, err := http.NewRequest(http.MethodPost, g.url+"/api/tenants/acme/eventhook"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+adminKey)
	r.Header.Set("Content-Type", "application/json")
	_, err = request(ctx, r, status)
	return err
}

// send sends a signed webhook.
func (g gateway) send(ctx context.Context) error {
	r, err := send.Sample{Provider: "github"}.Request(ctx, g.url+ingest.Path("acme", "github"), sourceSecret, time.Now())
	if err != nil {
		return err
	}
	_, err = request(ctx, r, http.StatusOK)
	return err
}

// startLoad sends webhooks, and publishes events to a subscriber that answers and to one that
// fails, until the test ends.
func (g gateway) startLoad(t *testing.T) {
	t.Helper()
	for name, status := range map[string]int{"good": http.StatusNoContent, "bad": http.StatusInternalServerError} {
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(receiver.Close)
		body, err := json.Marshal(map[string]any{"name": name, "url": receiver.URL, "event_types": []string{name + ".event"},
			"retry": map[string]any{"max_retries": 1, "initial_delay_ms": 100, "max_delay_ms": 1000}, "disable_after_failures": 0})
		if err != nil {
			t.Fatal(err)
		}
		if err := g.post(t.Context(), "/subscriptions", string(body), http.StatusCreated); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- g.load(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the load ended: %v", err)
		}
	})
}

// load runs until ctx ends. It returns the error of a request that the gateway did not answer
// as it should.
func (g gateway) load(ctx context.Context) error {
	whole := context.WithoutCancel(ctx)
	pace := time.NewTicker(50 * time.Millisecond)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pace.C:
		}
		if err := g.send(whole); err != nil {
			return err
		}
		for _, kind := range []string{"good", "bad"} {
			if err := g.post(whole, "/events", `{"event_type":"`+kind+`.event","data":{"n":1}}`, http.StatusAccepted); err != nil {
				return err
			}
		}
	}
}
