package agent

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/certfile/certfiletest"
	"github.com/eventhook/eventhook/internal/egress"
	"github.com/eventhook/eventhook/internal/egress/egresstest"
)

func newDestinations(t *testing.T, r *net.Resolver, m material, entries ...string) *destinations {
	t.Helper()
	d := &destinations{allowed: list(t, entries...), resolver: r}
	d.use(m)
	t.Cleanup(func() { d.clients.Load().close() })
	return d
}

func (d *destinations) post(t *testing.T, url string) (status int, beginning string, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	status, _, raw, err := d.Exchange(t.Context(), request, 1<<10)
	return status, string(raw), err
}

// counting starts a server that counts its requests.
func counting(t *testing.T, h http.HandlerFunc) (s *httptest.Server, port string, count *atomic.Int64) {
	t.Helper()
	count = &atomic.Int64{}
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		h(w, r)
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return s, u.Port(), count
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	inside, _, reached := counting(t, func(http.ResponseWriter, *http.Request) {})
	s, _, _ := counting(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, inside.URL, http.StatusTemporaryRedirect)
	})
	d := newDestinations(t, nil, material{}, s.URL, inside.URL)
	if status, _, err := d.post(t, s.URL+"/hooks"); status != http.StatusTemporaryRedirect || err != nil || reached.Load() != 0 {
		t.Errorf("got %d, %v and %d requests to the redirect's target, want 307 and none", status, err, reached.Load())
	}
}

// A name that first resolves to an allowed address and then to another one is refused.
func TestARebindingNameIsRefused(t *testing.T) {
	_, port, count := counting(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
	for claim, second := range map[string]string{"loopback": "127.0.0.2", "private": "10.0.0.1", "metadata": "169.254.169.254", "any": "0.0.0.0"} {
		count.Store(0)
		d := newDestinations(t, egresstest.Resolver(t, "127.0.0.1", second), material{}, "127.0.0.1/32")
		if status, _, err := d.post(t, "http://rebind.example:"+port); status != 200 || err != nil {
			t.Fatalf("%s: the first request: got %d, %v", claim, status, err)
		}
		_, _, err := d.post(t, "http://rebind.example:"+port)
		if !errors.Is(err, egress.ErrRefused) || classOf(err) != "blocked" || count.Load() != 1 || strings.Contains(err.Error(), second) {
			t.Errorf("%s: the second request: got %v and %d answered requests, want it blocked", claim, err, count.Load())
		}
	}
}

func TestANamedHostDoesNotLeadToThisHost(t *testing.T) {
	_, port, count := counting(t, func(http.ResponseWriter, *http.Request) {})
	for entry, want := range map[string]bool{"http://ci.internal:" + port: false, "127.0.0.0/8": true} {
		d := newDestinations(t, egresstest.Resolver(t, "127.0.0.1"), material{}, entry)
		if _, _, err := d.post(t, "http://ci.internal:"+port); (err == nil) != want {
			t.Errorf("--allow %s: got %v, want success %t", entry, err, want)
		}
	}
	if count.Load() != 1 {
		t.Errorf("got %d requests, want 1", count.Load())
	}
}

// A connection to a host that an entry names is not used for a path that only a network allows.
func TestConnectionsAreNotSharedBetweenRules(t *testing.T) {
	_, port, count := counting(t, func(http.ResponseWriter, *http.Request) {})
	d := newDestinations(t, egresstest.Resolver(t, "127.0.0.1"), material{}, "http://localhost:"+port+"/hooks", "10.0.0.0/8")
	if status, _, err := d.post(t, "http://localhost:"+port+"/hooks/a"); status != 200 || err != nil {
		t.Fatalf("the named path: got %d, %v", status, err)
	}
	if _, _, err := d.post(t, "http://localhost:"+port+"/admin"); !errors.Is(err, egress.ErrRefused) || count.Load() != 1 {
		t.Errorf("another path: got %v and %d requests, want it blocked", err, count.Load())
	}
}

func TestRefusedDestinationsGetNothing(t *testing.T) {
	s, _, count := counting(t, func(http.ResponseWriter, *http.Request) {})
	for _, c := range [][2]string{{"http://10.0.0.0/8", s.URL}, {s.URL + "/hooks", s.URL + "/admin"}, {"https://ci.example.com", s.URL}} {
		_, _, err := newDestinations(t, nil, material{}, c[0]).post(t, c[1]+"?token=hush")
		if !errors.Is(err, egress.ErrRefused) || classOf(err) != "blocked" || strings.Contains(err.Error(), "hush") {
			t.Errorf("--allow %s, %s: got %v, want it blocked without the URL", c[0], c[1], err)
		}
	}
	if count.Load() != 0 {
		t.Errorf("got %d requests, want none", count.Load())
	}
}

func TestTheProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	s, _, count := counting(t, func(http.ResponseWriter, *http.Request) {})
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	if status, _, err := newDestinations(t, nil, material{}, "10.0.0.0/8", s.URL).post(t, s.URL); status != 200 || err != nil || count.Load() != 1 {
		t.Errorf("got %d, %v, want 200", status, err)
	}
}

// The files of certificates are used, and used again after a change.
func TestCertificatesAreUsedAndReloaded(t *testing.T) {
	server, own := certfiletest.New(t, "server", time.Now().Add(time.Hour)), certfiletest.New(t, "first", time.Now().Add(time.Hour))
	s := newTLSServer(t, server)
	c := testConfig()
	c.CAFile, c.CertFile, c.KeyFile = server.Cert, own.Cert, own.Key
	files, err := loadCertificates(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	d := newDestinations(t, nil, files.current(), s.url())
	if _, name, err := d.post(t, s.url()); name != "first" || err != nil {
		t.Errorf("got %q, %v; want the certificate to be presented", name, err)
	}
	own.Write(t, "second", time.Now().Add(time.Hour))
	server.Write(t, "server", time.Now().Add(time.Hour))
	s.restart(t, server)
	d.clients.Load().close()
	if _, _, err := d.post(t, s.url()); err == nil || classOf(err) != "tls" {
		t.Errorf("with another authority: got %v, want an error of TLS", err)
	}
	files.reload(d.use)
	if _, name, err := d.post(t, s.url()); name != "second" || err != nil {
		t.Errorf("after the reload: got %q, %v; want the second certificate", name, err)
	}
}
