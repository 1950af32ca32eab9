//go:build temporal

package temporal_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// selfSigned returns a certificate for 127.0.0.1 that no fixture trusts, also in PEM with its key.
func selfSigned() (pair tls.Certificate, certificate, key string) {
	private := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true}
	raw := must(x509.CreateCertificate(rand.Reader, template, template, private.Public(), private))
	inPEM := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: private}, inPEM("CERTIFICATE", raw),
		inPEM("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(private)))
}

func TestCertificates(t *testing.T) {
	f := setUp(t)
	own, certificate, key := selfSigned()
	other, _, _ := selfSigned()
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM([]byte(certificate))
	plain, untrusted := newServer(t, nil), newServer(t, &tls.Config{Certificates: []tls.Certificate{own}})
	mutual := newServer(t, &tls.Config{Certificates: trusted().Certificates, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authorities})
	closed := newServer(t, &tls.Config{Certificates: trusted().Certificates, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()})
	pair := map[string]any{"certificate": certificate, "private_key": key, "api_key": nil}
	mutual.key, closed.key = "", ""

	f.sent(f.target(plain, map[string]any{"tls": false}), f.delivery(order), 0)
	f.fails(f.target(plain, nil), f.delivery(order), "does not speak TLS", eventhook.ErrorTLS)
	f.fails(f.target(untrusted, nil), f.delivery(order), "is not trusted", eventhook.ErrorTLS)
	f.sent(f.target(untrusted, map[string]any{"ca": certificate}), f.delivery(order), 0)
	untrusted.end()
	untrusted.config = &tls.Config{Certificates: []tls.Certificate{other}}
	untrusted.start()
	again := setUp(t)
	again.fails(again.target(untrusted, map[string]any{"ca": certificate}), again.delivery(order), "is not trusted", eventhook.ErrorTLS)

	f.sent(f.target(mutual, pair), f.delivery(order), 0)
	f.fails(f.target(mutual, nil), f.delivery(order), "certificate", eventhook.ErrorAuth)
	f.fails(f.target(closed, pair), f.delivery(order), "certificate", eventhook.ErrorAuth)
}

func TestAnAddressThatIsNotAllowed(t *testing.T) {
	f, s := setUpWith(t), newServer(t, trusted())
	f.fails(f.target(s, nil), f.delivery(order), "is not public", eventhook.ErrorBlocked)
}

func TestAServerThatStopsAndComesBack(t *testing.T) {
	f, s := setUp(t), newServer(t, trusted())
	to, d := f.target(s, nil), f.delivery(order)
	f.sent(to, f.delivery(`{"id":1}`), 0)
	s.end()
	f.fails(to, d, "", eventhook.ErrorConnect, eventhook.ErrorClosed)
	f.fails(to, d, "refused the connection", eventhook.ErrorConnect)
	s.start()
	f.sent(to, d, 0) // at once, not after the backoff of gRPC
}

func TestAServerThatNeverAnswers(t *testing.T) {
	f, s := setUp(t), newServer(t, trusted())
	s.change(func() { s.isMute = true })
	f.fails(f.target(s, map[string]any{"timeout_seconds": 1}), f.delivery(order), "in time", eventhook.ErrorTimeout)
	s.change(func() { s.isMute = false })
	f.sent(f.target(s, nil), f.delivery(order), 0)
}

// listen accepts connections and passes them to serve.
func listen(t *testing.T, serve func(net.Conn)) *server {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			serve(c)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return &server{address: l.Addr().String()}
}

func TestAServerThatAcceptsConnectionsAndSaysNothing(t *testing.T) {
	f, s := setUp(t), listen(t, func(net.Conn) {})
	for _, more := range []map[string]any{{"timeout_seconds": 1}, {"timeout_seconds": 1, "tls": false}} {
		f.fails(f.target(s, more), f.delivery(order), "in time", eventhook.ErrorTimeout, eventhook.ErrorConnect)
	}
}

func TestAServerOfAnotherProtocol(t *testing.T) {
	f := setUp(t)
	s := listen(t, func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) })
	f.fails(f.target(s, map[string]any{"timeout_seconds": 5, "tls": false}), f.delivery(order), "", eventhook.ErrorClosed)
	gone := listen(t, func(c net.Conn) { _ = c.Close() })
	f.fails(f.target(gone, map[string]any{"timeout_seconds": 5, "tls": false}), f.delivery(order), "", eventhook.ErrorClosed)
}

// A hostile server gets no memory: its answers are bounded.
func TestAnAnswerThatIsTooLarge(t *testing.T) {
	f, s := setUp(t), newServer(t, trusted())
	s.change(func() { s.padding = strings.Repeat("x", 100<<10) })
	f.fails(f.target(s, nil), f.delivery(order), "larger than max", eventhook.ErrorHTTP5xx)
	s.change(func() { s.padding = "" })
	f.sent(f.target(s, nil), f.delivery(`{"id":8}`), 0)
}
