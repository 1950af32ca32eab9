package agent

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/eventhook/eventhook/internal/certfile/certfiletest"
)

// tlsServer asks for certificates and answers with the name of the client's one. It can be
// restarted at its address with another certificate.
type tlsServer struct {
	*httptest.Server
	address string
}

func newTLSServer(t *testing.T, f certfiletest.Files) *tlsServer {
	t.Helper()
	s := &tlsServer{address: "127.0.0.1:0"}
	s.listen(t, f)
	t.Cleanup(func() { s.Close() })
	return s
}

func (s *tlsServer) url() string { return "https://" + s.address }

func (s *tlsServer) restart(t *testing.T, f certfiletest.Files) {
	t.Helper()
	s.Close()
	s.listen(t, f)
}

func (s *tlsServer) listen(t *testing.T, f certfiletest.Files) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	_ = s.Listener.Close()
	if s.Listener, err = net.Listen("tcp", s.address); err != nil {
		t.Fatal(err)
	}
	s.address = s.Listener.Addr().String()
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
}
