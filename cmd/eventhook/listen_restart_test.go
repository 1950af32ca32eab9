package main

import (
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// relay is an address whose connections lead to a gateway that can be replaced by another one.
type relay struct {
	url string
	to  atomic.Pointer[instance]
}

func startRelay(t *testing.T, to *instance) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{url: "http://" + l.Addr().String()}
	r.to.Store(to)
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			connections.Go(func() { r.connect(from) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); connections.Wait() })
	return r
}

// connect copies bytes between a client and the gateway until one of them closes its connection.
func (r *relay) connect(client net.Conn) {
	defer func() { _ = client.Close() }()
	gateway, err := net.Dial("tcp", strings.TrimPrefix(r.to.Load().url, "http://"))
	if err != nil {
		return
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(gateway, client)
		_ = gateway.Close()
		close(ended)
	}()
	_, _ = io.Copy(client, gateway)
	_, _ = client.Close(), gateway.Close()
	<-ended
}

// counter is a local program that counts the webhooks by their event ids.
type counter struct {
	mu  sync.Mutex
	got map[string]int // by X-GitHub-Delivery
}

func (c *counter) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got[r.Header.Get("X-Github-Delivery")]++
}

func (c *counter) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.got)
}

// The gateway is killed while webhooks arrive, and another one continues on its database.
func TestListenContinuesAfterTheGatewayWasKilled(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	first := startInstance(t, dsn)
	address := startRelay(t, first)
	program := &counter{got: map[string]int{}}
	app := httptest.NewServer(program)
	t.Cleanup(app.Close)
	hints := &clitest.Buffer{}
	listener := exec.Command(os.Args[0], "listen", "github", "--since", "5m", "--forward", app.URL, "--tenant", "acme", "--server", address.url)
	listener.Env, listener.Stderr = append(os.Environ(), "EVENTHOOK_KEY="+testAdminKey, "EVENTHOOK_TEST_AS_MAIN=1"), hints
	if err := listener.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Process.Kill() })
	hasMore := func(than int) func() bool { return func() bool { return len(program.counts()) > than } }

	before := startFloodNamed(t, first, "before")
	clitest.Eventually(t, "webhooks are forwarded", hasMore(50))
	first.kill()
	before.stop()
	second := startInstance(t, dsn)
	after := startFloodNamed(t, second, "after")
	clitest.Eventually(t, "webhooks arrive at the second gateway", func() bool { return after.count(http.StatusOK) > 50 })
	address.to.Store(second)
	clitest.Eventually(t, "more webhooks arrive", func() bool { return after.count(http.StatusOK) > 100 })
	after.stop()

	stored := storedDeliveries(t, dsn)
	clitest.Eventually(t, "all stored webhooks are forwarded", hasMore(len(stored)-1))
	if err := listener.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := listener.Wait(); err != nil {
		t.Errorf("the command ended with %v, want exit code 0", err)
	}
	if diff := cmp.Diff(stored, program.counts()); diff != "" {
		t.Errorf("forwarded (-want +got), each once:\n%s\n%s", diff, hints)
	}
	if !strings.Contains(hints.String(), "The connection to the gateway was lost") {
		t.Errorf("printed %q, want a message about the lost connection", hints)
	}
}

// storedDeliveries returns the ids that GitHub gave to the stored webhooks, each with the number 1.
func storedDeliveries(t *testing.T, dsn string) map[string]int {
	t.Helper()
	rows, err := connect(t, dsn).Query(t.Context(), `SELECT idempotency_key FROM eventhook.event WHERE source_id IS NOT NULL`)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	stored := map[string]int{}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		stored[id] = 1
	}
	return stored
}
