package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/send"
	"github.com/eventhook/eventhook/internal/dbclock"
	"github.com/eventhook/eventhook/internal/pgtest"
	"github.com/eventhook/eventhook/internal/seal"
)

// TestMain runs the program instead of the tests in processes that tests start, so
// that tests can kill a gateway.
func TestMain(m *testing.M) {
	if os.Getenv("EVENTHOOK_TEST_AS_MAIN") != "" {
		if file := os.Getenv(clockVariable); file != "" {
			clock = dbclock.New(jumpingClock(file))
		}
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	pgtest.Main(m)
}

const (
	testAdminKey = "ehk_an-admin-key-for-tests"
	testSecret   = "a-secret-for-tests"
)

var testEncryptionKey = seal.NewKey()

// testTenants has one source, with very high limits and a route to a task.
const testTenants = `
tenants:
  - slug: acme
    sources:
      - slug: github
        provider: github
        secrets: [` + testSecret + `]
        rate_limit: {requests_per_second: 1000000, requests_per_minute: 60000000, burst_size: 1000000}
        routes:
          - {name: pushes, filter_event_types: [push], targets: [{type: task, task_kind: build}]}
`

// instance is a gateway in a process of its own.
type instance struct {
	t       *testing.T
	cmd     *exec.Cmd
	url     string
	metrics string // URL
	logs    *clitest.Buffer
	done    chan struct{}
}

// startInstance starts a gateway on a database and waits until it serves.
func startInstance(t *testing.T, dsn string, env ...string) *instance {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tenants.yaml")
	if err := os.WriteFile(file, []byte(testTenants), 0o600); err != nil {
		t.Fatal(err)
	}
	return startCommand(t, databaseEnv(dsn, env...), "serve", "--apply", file)
}

// databaseEnv returns the variables of a gateway on a database, followed by more.
func databaseEnv(dsn string, more ...string) []string {
	return append([]string{"DATABASE_URL=" + dsn, "EVENTHOOK_ADMIN_KEY=" + testAdminKey,
		"EVENTHOOK_ENCRYPTION_KEYS=" + testEncryptionKey, "EVENTHOOK_LEASE_SECONDS=2"}, more...)
}

func startCommand(t *testing.T, env []string, args ...string) *instance {
	t.Helper()
	i, out := launch(t, env, args...)
	i.awaitServing(out)
	return i
}

// launch starts a gateway and returns its output. awaitServing must be called.
func launch(t *testing.T, env []string, args ...string) (*instance, io.Reader) {
	t.Helper()
	i := &instance{t: t, logs: &clitest.Buffer{}, done: make(chan struct{})}
	i.cmd = exec.Command(os.Args[0], append(args, "--listen", "127.0.0.1:0", "--management-listen", "127.0.0.1:0")...)
	i.cmd.Env = append(os.Environ(), append(env, "EVENTHOOK_TEST_AS_MAIN=1")...)
	i.cmd.Stderr = i.logs
	out, err := i.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := i.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		i.kill()
		if t.Failed() {
			t.Logf("log of the instance at %s:\n%s", i.url, i.logs)
		}
	})
	return i, out
}

// awaitServing waits until a launched gateway serves, and fails the test if it ends before.
func (i *instance) awaitServing(out io.Reader) {
	i.t.Helper()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, url, ok := strings.Cut(lines.Text(), "webhooks and API  "); ok {
			i.url = url
		}
		if _, url, ok := strings.Cut(lines.Text(), "health, metrics   "); ok {
			i.metrics = url
			go func() {
				_, _ = io.Copy(io.Discard, out)
				_ = i.cmd.Wait()
				close(i.done)
			}()
			return
		}
	}
	_ = i.cmd.Wait()
	close(i.done)
	i.t.Fatalf("the gateway did not start:\n%s", i.logs)
}

// signal sends a signal to the process.
func (i *instance) signal(s os.Signal) {
	i.t.Helper()
	if err := i.cmd.Process.Signal(s); err != nil {
		i.t.Fatal(err)
	}
}

// kill ends the process at once, as a crash would.
func (i *instance) kill() {
	_ = i.cmd.Process.Kill()
	<-i.done
}

// stop sends SIGTERM and waits for the end of the process.
func (i *instance) stop() {
	i.t.Helper()
	_ = i.cmd.Process.Signal(syscall.SIGTERM)
	<-i.done
	if code := i.cmd.ProcessState.ExitCode(); code != 0 {
		i.t.Errorf("the gateway stopped with exit code %d:\n%s", code, i.logs)
	}
}

var testClient = &http.Client{
	Timeout:   20 * time.Second,
	Transport: &http.Transport{MaxIdleConnsPerHost: 256},
}

// push sends a signed push with a delivery id.
func (i *instance) push(ctx context.Context, id string) (status int, answer send.Answer, err error) {
	return i.pushSample(ctx, send.Sample{Provider: "github", ID: id})
}

func (i *instance) pushSample(ctx context.Context, sample send.Sample) (status int, answer send.Answer, err error) {
	r, err := sample.Request(ctx, i.url+ingest.Path("acme", "github"), testSecret, time.Now())
	if err != nil {
		return 0, answer, err
	}
	resp, err := testClient.Do(r)
	if err != nil {
		return 0, answer, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode == http.StatusOK {
		err = json.Unmarshal(raw, &answer)
	}
	return resp.StatusCode, answer, err
}

// call calls the API of tenant acme with the admin key.
func (i *instance) call(method, path string, body, answer any) (status int) {
	i.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		i.t.Fatal(err)
	}
	r, err := http.NewRequest(method, i.url+"/api/tenants/acme/eventhook"+path, bytes.NewReader(raw))
	if err != nil {
		i.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testAdminKey)
	r.Header.Set("Content-Type", "application/json")
	resp, err := testClient.Do(r)
	if err != nil {
		i.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		i.t.Fatal(err)
	}
	if answer != nil && resp.StatusCode/100 == 2 {
		if err := json.Unmarshal(got, answer); err != nil {
			i.t.Fatalf("%s %s answered %s: %v", method, path, got, err)
		}
	}
	return resp.StatusCode
}

// flood sends pushes with different ids over several connections until stop is
// called, and records the answers. A sender pauses between two pushes, which leaves the
// processors to the gateway and to other tests.
type flood struct {
	cancel   context.CancelFunc
	senders  sync.WaitGroup
	sent     atomic.Int64
	mu       sync.Mutex
	accepted []string
	statuses map[int]int
}

const floodSenders = 16

func startFlood(t *testing.T, to *instance) *flood { return startFloodNamed(t, to, t.Name()) }

// startFloodNamed is startFlood with a prefix of the ids.
func startFloodNamed(t *testing.T, to *instance, name string) *flood {
	ctx, cancel := context.WithCancel(t.Context())
	f := &flood{cancel: cancel, statuses: map[int]int{}}
	for range floodSenders {
		f.senders.Go(func() {
			for ctx.Err() == nil {
				id := fmt.Sprintf("%s-%d", name, f.sent.Add(1))
				status, answer, err := to.push(context.WithoutCancel(ctx), id)
				f.note(status, answer, err)
				pause(ctx)
			}
		})
	}
	t.Cleanup(f.stop)
	return f
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Millisecond):
	}
}

func (f *flood) note(status int, answer send.Answer, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.statuses[0]++
		return
	}
	f.statuses[status]++
	if status == http.StatusOK {
		f.accepted = append(f.accepted, answer.EventID)
	}
}

func (f *flood) count(status int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.statuses[status]
}

func (f *flood) stop() {
	f.cancel()
	f.senders.Wait()
}

// connect opens a database connection for the test.
func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func count(t *testing.T, conn *pgx.Conn, sql string, args ...any) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// wantEachProcessedOnce fails the test unless every answered event is stored, is
// delivered and created exactly one task, and every other stored event created at
// most one.
func wantEachProcessedOnce(t *testing.T, dsn string, answered []string) {
	t.Helper()
	conn := connect(t, dsn)
	if n := count(t, conn, `SELECT count(*) FROM eventhook.event WHERE id = ANY($1::uuid[])`, answered); n != len(answered) {
		t.Errorf("%d events were answered 200, %d are stored", len(answered), n)
	}
	clitest.Eventually(t, "all events are processed", func() bool {
		return count(t, conn, `SELECT count(*) FROM eventhook.event WHERE due_at IS NOT NULL OR status IN ('pending', 'processing', 'failed')`) == 0
	})
	if n := count(t, conn, `SELECT count(*) FROM eventhook.event WHERE id = ANY($1::uuid[]) AND status = 'delivered'`, answered); n != len(answered) {
		t.Errorf("%d events were answered 200, %d are delivered", len(answered), n)
	}
	if n := count(t, conn, `SELECT count(*) FROM (SELECT event_id FROM eventhook.execution GROUP BY event_id HAVING count(*) > 1) d`); n != 0 {
		t.Errorf("%d events created more than one task", n)
	}
	if n := count(t, conn, `SELECT count(DISTINCT event_id) FROM eventhook.execution WHERE event_id = ANY($1::uuid[])`, answered); n != len(answered) {
		t.Errorf("%d events were answered 200, %d created a task", len(answered), n)
	}
}

// waiting returns the number of events in the accept batches of the gateway.
func (i *instance) waiting() int { return i.metric("accept_waiting_events") }

// planned returns the number of events that the gateway stored together with their
// effects.
func (i *instance) planned() int { return i.metric("events_planned_before_commit_total") }

// metric reads a metric without labels, 0 if it does not exist.
func (i *instance) metric(name string) (n int) {
	i.t.Helper()
	resp, err := testClient.Get(i.metrics)
	if err != nil {
		i.t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if v, ok := strings.CutPrefix(lines.Text(), "eventhook_"+name+" "); ok {
			if n, err = strconv.Atoi(v); err != nil {
				i.t.Fatal(err)
			}
		}
	}
	return n
}

// payload reads the exact body of an event.
func (i *instance) payload(event string) string {
	i.t.Helper()
	r, err := http.NewRequest(http.MethodGet, i.url+"/api/tenants/acme/eventhook/events/"+event+"/payload", nil)
	if err != nil {
		i.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testAdminKey)
	resp, err := testClient.Do(r)
	if err != nil {
		i.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		i.t.Fatal(err)
	}
	return string(raw)
}

// claimedItem is a piece of work that a worker claimed.
type claimedItem struct {
	ID         string
	Kind       string
	Input      json.RawMessage
	State      json.RawMessage
	LeaseToken int64 `json:"lease_token"`
	Promises   []struct {
		Status string
		Value  json.RawMessage
	}
}

func hmacOf(key []byte, message string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(message))
	return mac.Sum(nil)
}

func hexHMAC(secret string, message []byte) string {
	return hex.EncodeToString(hmacOf([]byte(secret), string(message)))
}
