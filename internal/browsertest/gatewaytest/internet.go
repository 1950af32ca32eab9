package gatewaytest

import (
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Internet is the proxy of a gateway. It has a receiver for each host below example.com, so that pages
// show the names of hosts and not addresses of this machine.
type Internet struct {
	t         testing.TB
	proxy     *httptest.Server
	hosts     *httptest.Server // with a certificate for all hosts
	mu        sync.Mutex
	receivers map[string]*Receiver // by host
}

// NewInternet starts an internet that ends with the test.
func NewInternet(t testing.TB) *Internet {
	t.Helper()
	i := &Internet{t: t, receivers: map[string]*Receiver{}}
	i.hosts = httptest.NewTLSServer(http.HandlerFunc(i.answer))
	i.proxy = httptest.NewServer(http.HandlerFunc(i.connect))
	t.Cleanup(i.proxy.Close)
	t.Cleanup(i.hosts.CloseClientConnections)
	return i
}

// Env returns the environment variables with which a gateway sends through the internet.
func (i *Internet) Env() []string {
	i.t.Helper()
	file := filepath.Join(i.t.TempDir(), "authorities.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.hosts.Certificate().Raw})
	if err := os.WriteFile(file, certificate, 0o600); err != nil {
		i.t.Fatal(err)
	}
	return []string{"EVENTHOOK_OUTBOUND_PROXY_URL=" + i.proxy.URL, "SSL_CERT_FILE=" + file}
}

// Receiver returns the receiver of a host below example.com.
func (i *Internet) Receiver(host string) *Receiver {
	i.mu.Lock()
	defer i.mu.Unlock()
	r := i.receivers[host]
	if r == nil {
		r = newReceiver(i.t)
		r.URL = "https://" + host + "/hooks"
		i.receivers[host] = r
	}
	return r
}

func (i *Internet) answer(w http.ResponseWriter, r *http.Request) { i.Receiver(r.Host).ServeHTTP(w, r) }

// connect serves the CONNECT of a proxy.
func (i *Internet) connect(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "only https", http.StatusMethodNotAllowed)
		return
	}
	up, err := net.Dial("tcp", i.hosts.Listener.Addr().String())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusOK)
	down, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = up.Close()
		return
	}
	go pipe(up, buffered, down)
	pipe(down, up, up)
}

// pipe copies until one of the connections ends, and closes both.
func pipe(to net.Conn, from io.Reader, of net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = of.Close()
}
