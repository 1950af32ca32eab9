package portalstories_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// internet is a proxy behind which hosts answer that do not exist, over HTTPS, so that endpoints of a
// scene have the addresses of customers.
type internet struct {
	t     *testing.T
	env   []string // of a gateway that sends there
	hosts map[string]*gatewaytest.Receiver
}

// newInternet starts an internet with hosts.
func newInternet(t *testing.T, hosts ...string) *internet {
	t.Helper()
	i := &internet{t: t, hosts: map[string]*gatewaytest.Receiver{}}
	for _, host := range hosts {
		i.hosts[host] = gatewaytest.NewReceiver(t)
		i.hosts[host].URL = "https://" + host + "/webhooks"
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.hosts[r.Host].ServeHTTP(w, r)
	}))
	certificate, file := i.certify(hosts)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}
	server.StartTLS()
	t.Cleanup(server.Close)
	proxy := httptest.NewServer(tunnel(server.Listener.Addr().String()))
	t.Cleanup(proxy.Close)
	i.env = []string{"EVENTHOOK_OUTBOUND_PROXY_URL=" + proxy.URL, "SSL_CERT_FILE=" + file}
	return i
}

// certify returns a certificate of hosts that has signed itself, and its file.
func (i *internet) certify(hosts []string) (tls.Certificate, string) {
	key := gatewaytest.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: hosts, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	raw := gatewaytest.Must(x509.CreateCertificate(rand.Reader, c, c, key.Public(), key))
	file := filepath.Join(i.t.TempDir(), "internet.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o600); err != nil {
		i.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, file
}

// tunnel is a proxy that connects every host to one server.
type tunnel string

func (server tunnel) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	to, err := net.Dial("tcp", string(server))
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusOK)
	from, rest, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = to.Close()
		return
	}
	go func() { _, _ = io.Copy(to, rest); _ = to.Close() }()
	_, _ = io.Copy(from, to)
	_ = from.Close()
}
