package gatewaytest

import (
	"bytes"
	"crypto/tls"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/certfile/certfiletest"
	"github.com/eventhook/eventhook/internal/pgtest"
	"github.com/eventhook/eventhook/internal/seal"
)

// AdminKey is the admin key of every gateway.
const AdminKey = "ehk_an-admin-key-for-tests"

// Gateway is a gateway in a process of its own.
type Gateway struct {
	URL        string // of webhooks, the API, the console and the portal
	Management string // URL of the metrics
	DSN        string // of the database
	Admin      *client.Client

	t       testing.TB
	env     []string
	http    *http.Client // trusts the certificate of the gateway
	keys    string       // that encrypt secrets
	log     buffer
	process *process
}

// buffer is the log of a gateway.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Start starts a gateway for the test, with more environment variables such as
// "EVENTHOOK_REQUIRE_HTTPS=true". It may send to this machine. It ends with the test, which fails if
// the gateway does not stop cleanly.
func Start(t testing.TB, env ...string) *Gateway {
	t.Helper()
	return start(t, http.DefaultClient, env)
}

// StartTLS starts a gateway as Start does, whose listeners serve TLS with a certificate that has signed
// itself. A page opens it after TrustCertificates.
func StartTLS(t testing.TB, env ...string) *Gateway {
	t.Helper()
	f := certfiletest.New(t, "gatewaytest", time.Now().Add(time.Hour))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: f.Pool(t), MinVersion: tls.VersionTLS13}}
	t.Cleanup(transport.CloseIdleConnections)
	env = append([]string{"EVENTHOOK_TLS_CERT_FILE=" + f.Cert, "EVENTHOOK_TLS_KEY_FILE=" + f.Key}, env...)
	return start(t, &http.Client{Transport: transport}, env)
}

func start(t testing.TB, h *http.Client, env []string) *Gateway {
	t.Helper()
	binary := program(t)
	g := &Gateway{t: t, DSN: pgtest.New(t), http: h, keys: seal.NewKey()}
	g.env = append([]string{"DATABASE_URL=" + g.DSN,
		"EVENTHOOK_ADMIN_KEY=" + AdminKey, "EVENTHOOK_ENCRYPTION_KEYS=" + g.keys,
		"EVENTHOOK_OUTBOUND_ALLOWED_CIDRS=127.0.0.0/8,::1/128"}, env...)
	g.launch(binary, "127.0.0.1:0")
	g.Admin = g.Client(t, AdminKey)
	t.Cleanup(func() {
		if g.process == nil {
			return
		}
		if err := g.process.stop(); err != nil {
			t.Errorf("gatewaytest: %v; its log:\n%s", err, &g.log)
		}
	})
	return g
}

func (g *Gateway) launch(binary, listen string) {
	g.t.Helper()
	var err error
	if g.process, err = launch(binary, listen, g.env, &g.log); err != nil {
		g.t.Fatalf("gatewaytest: %v; its log:\n%s", err, &g.log)
	}
	g.URL, g.Management = g.process.url, g.process.management
}

// Kill ends the gateway as a crash would. It is not for a shared gateway.
func (g *Gateway) Kill() {
	g.process.kill()
	g.process = nil
}

// Restart starts a gateway again that was killed, with the same URL.
func (g *Gateway) Restart() {
	g.t.Helper()
	_, address, _ := strings.Cut(g.URL, "://")
	g.launch(program(g.t), address)
}

// Log returns what the gateway has logged.
func (g *Gateway) Log() string { return g.log.String() }

// SignIn opens a page of the console in a browser as the holder of a key.
func (g *Gateway) SignIn(t testing.TB, key, path string) *browsertest.Page {
	t.Helper()
	p := browsertest.New(t)
	p.Open(g.URL + path)
	p.WaitVisible("#key")
	p.Fill("#key", key)
	p.Press("Enter")
	p.WaitGone("#key")
	p.WaitVisible("main")
	return p
}

// Client returns a client with a key.
func (g *Gateway) Client(t testing.TB, key string) *client.Client {
	t.Helper()
	c, err := client.New(g.URL, key, client.WithHTTPClient(g.http))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
