package auth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/auth"
)

// authority is a certificate authority.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         string
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := authority{template, key, ""}
	der := a.sign(t, template, key)
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = encodePEM("CERTIFICATE", der)
	return a
}

func (a authority) sign(t *testing.T, template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func encodePEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// issue returns a certificate and its key in PEM.
func (a authority) issue(t *testing.T, name string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der := a.sign(t, &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, private)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return encodePEM("CERTIFICATE", der), encodePEM("PRIVATE KEY", encoded)
}

func (a authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// mtlsServer requires a client certificate and answers with its name.
type mtlsServer struct {
	*httptest.Server

	mu    sync.Mutex
	names map[string]string // of the client, by the address of the connection
}

func newMTLSServer(t *testing.T, servers, clients authority, http2 bool) *mtlsServer {
	t.Helper()
	s := &mtlsServer{names: map[string]string{}}
	s.Server = httptest.NewUnstartedServer(wholeBody(t, func(w http.ResponseWriter, r *http.Request) {
		name := r.TLS.PeerCertificates[0].Subject.CommonName
		s.mu.Lock()
		defer s.mu.Unlock()
		if before, isKnown := s.names[r.RemoteAddr]; isKnown && before != name {
			t.Errorf("%s and %s share a connection", before, name)
		}
		s.names[r.RemoteAddr] = name
		_, _ = io.WriteString(w, r.Proto+" "+name)
	}))
	pair, err := tls.X509KeyPair(pemPair(servers.issue(t, "server")))
	if err != nil {
		t.Fatal(err)
	}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients.pool(), MinVersion: tls.VersionTLS12}
	s.EnableHTTP2, s.Config.ErrorLog = http2, log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func pemPair(certificate, key string) (c, k []byte) { return []byte(certificate), []byte(key) }

func TestClientCertificates(t *testing.T) {
	ca, stranger := newAuthority(t, "ca"), newAuthority(t, "stranger")
	of := func(from authority, name, trusted string) eventhook.Auth {
		certificate, key := from.issue(t, name)
		return eventhook.Auth{Type: eventhook.AuthMTLS, Certificate: certificate, PrivateKey: key, CA: trusted}
	}
	for proto, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(proto, func(t *testing.T) {
			server, all := newMTLSServer(t, ca, ca, http2), clients(private(), time.Now)
			a, b := clientFor(t, all, of(ca, "a", ca.pem)), clientFor(t, all, of(ca, "b", ca.pem))
			for range 3 {
				if status, answer, err := post(t, a, server.URL); status != 200 || answer != proto+" a" || err != nil {
					t.Errorf("got %d, %q, %v; want the name a", status, answer, err)
				}
				if status, answer, err := post(t, b, server.URL); status != 200 || answer != proto+" b" || err != nil {
					t.Errorf("got %d, %q, %v; want the name b", status, answer, err)
				}
			}
			if n := len(server.names); n != 2 {
				t.Errorf("%d connections, want one for each certificate", n)
			}
			for claim, wrong := range map[string]eventhook.Auth{
				"a server of a stranger": of(ca, "a", stranger.pem), "a server that no public authority knows": of(ca, "a", ""),
			} {
				_, answer, err := post(t, clientFor(t, all, wrong), server.URL)
				classed, ok := err.(interface{ Class() string })
				if !ok || classed.Class() != string(eventhook.ErrorTLS) {
					t.Errorf("%s: got %q, %v; want an error of TLS", claim, answer, err)
				}
			}
			if _, answer, err := post(t, clientFor(t, all, of(stranger, "a", ca.pem)), server.URL); err == nil { // TLS 1.3 refuses after the handshake
				t.Errorf("a certificate of a stranger: got %q", answer)
			}
			plain := clientFor(t, all, eventhook.Auth{Type: eventhook.AuthBasic, Username: "u", Password: hush})
			if _, answer, err := post(t, plain, server.URL); err == nil {
				t.Errorf("without a certificate: got %q", answer)
			}
		})
	}
}

// tlsClient is a TLSClient that reports that it was closed.
type tlsClient struct {
	clientFunc
	closed *int
}

func (c tlsClient) CloseIdleConnections() { *c.closed++ }

func TestTheCertificatesWithConnectionsAreBounded(t *testing.T) {
	const most = 512
	ca := newAuthority(t, "ca")
	certificate, key := ca.issue(t, "a")
	made, closed := 0, 0
	all := auth.New(auth.Deps{Now: time.Now, WithCertificate: func(tls.Certificate, *x509.CertPool) auth.TLSClient {
		made++
		return tlsClient{func(context.Context, *http.Request, int) (int, http.Header, []byte, error) { return 200, nil, nil, nil }, &closed}
	}})
	use := func(i int) {
		c := clientFor(t, all, eventhook.Auth{Type: eventhook.AuthMTLS, Certificate: certificate, PrivateKey: key, CA: ca.pem + strings.Repeat("\n", i)})
		for range 2 {
			if status, _, err := post(t, c, "https://a.example"); status != 200 || err != nil {
				t.Fatalf("got %d, %v", status, err)
			}
		}
	}
	for i := range most {
		use(i)
	}
	if made != most || closed != 0 {
		t.Errorf("%d clients made and %d closed, want %d and none", made, closed, most)
	}
	use(most)
	if made != most+1 || closed != 1 {
		t.Errorf("%d clients made and %d closed, want %d and 1", made, closed, most+1)
	}
}
