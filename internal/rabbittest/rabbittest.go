// Package rabbittest runs a server of RabbitMQ for tests. The server takes seconds to start, so the
// tests of a binary share it, each with a virtual host of its own. It is for tests only.
package rabbittest

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/certfile/certfiletest"
	"github.com/eventhook/eventhook/internal/servertest"
)

// Server is a server of RabbitMQ that a test may stop and start again, with its address and its data.
type Server struct {
	// CA is the certificate of the server, in PEM.
	CA string

	programs struct{ server, epmd string }
	dir      string // of its configuration and its data
	ports    struct{ amqp, amqps, distribution, epmd int }
	epmd     *servertest.Process
	node     *node // nil while it is stopped
}

var shared struct {
	mu     sync.Mutex
	server *Server
	hosts  int // number of virtual hosts that were created
}

// Get returns the server of this test binary, which it starts at the first call. The binary must
// call Stop at its end. Without RabbitMQ, Get skips the test; in CI, as root, it fails the test.
func Get(t testing.TB) *Server {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil {
		s := newServer(t)
		if err := s.run(); err != nil {
			s.end()
			t.Fatalf("rabbittest: %v", err)
		}
		shared.server = s
	}
	return shared.server
}

// Stop ends the server of this test binary and removes its data. It is for TestMain.
func Stop() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server != nil {
		shared.server.end()
		shared.server = nil
	}
}

// validity is the time for which the certificate of the server is valid.
const validity = 24 * time.Hour

func newServer(t testing.TB) *Server {
	t.Helper()
	s := &Server{}
	// The script of the package, because Debian's wrapper changes the user.
	s.programs.server = servertest.Program(t, "/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server")
	s.programs.epmd = servertest.Program(t, "epmd")
	var err error
	if s.dir, err = os.MkdirTemp("", "rabbittest-"); err != nil {
		t.Fatal(err)
	}
	ports, err := servertest.FreePorts(4)
	if err != nil {
		t.Fatal(err)
	}
	s.ports.amqp, s.ports.amqps, s.ports.distribution, s.ports.epmd = ports[0], ports[1], ports[2], ports[3]
	certificate := certfiletest.Files{Cert: s.path("tls.crt"), Key: s.path("tls.key")}
	certificate.Write(t, "rabbittest", time.Now().Add(validity))
	raw, err := os.ReadFile(certificate.Cert)
	if err != nil {
		t.Fatal(err)
	}
	s.CA = string(raw)
	return s
}

// Address returns the host and the port for AMQP, also while the server is stopped.
func (s *Server) Address() string { return fmt.Sprintf("127.0.0.1:%d", s.ports.amqp) }

// TLSAddress returns the host and the port for AMQP with TLS.
func (s *Server) TLSAddress() string { return fmt.Sprintf("127.0.0.1:%d", s.ports.amqps) }

// Stop ends the server. Its durable data stays.
func (s *Server) Stop() {
	s.node.terminate()
	s.node = nil
}

// Start starts a server that was stopped, and waits until it accepts connections.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.startNode(); err != nil {
		t.Fatalf("rabbittest: %v", err)
	}
}

// Pause makes the server answer nothing until Resume.
func (s *Server) Pause() { s.node.process.Pause() }

// Resume continues a paused server.
func (s *Server) Resume() { s.node.process.Resume() }

// Eval evaluates an Erlang expression in the server, such as rabbit_vhost:list_names(), and returns
// its value as text.
func (s *Server) Eval(t testing.TB, expression string) string {
	t.Helper()
	text, err := s.node.eval(expression)
	if err != nil {
		t.Fatalf("rabbittest: %s: %v", expression, err)
	}
	return text
}

// mustEval evaluates an expression whose value must be ok.
func (s *Server) mustEval(t testing.TB, format string, args ...any) {
	t.Helper()
	expression := fmt.Sprintf(format, args...)
	if got := s.Eval(t, expression); got != "ok" {
		t.Fatalf("rabbittest: %s returned %s", expression, got)
	}
}

// VirtualHost creates a virtual host for a test and a user who may do everything in it. Both are
// deleted when the test ends.
func (s *Server) VirtualHost(t testing.TB, password string) (host, user string) {
	t.Helper()
	shared.mu.Lock()
	shared.hosts++
	host = fmt.Sprintf("test-%d", shared.hosts)
	shared.mu.Unlock()
	user = host
	s.mustEval(t, `rabbit_vhost:add(<<"%s">>, <<"test">>)`, host)
	t.Cleanup(func() { s.mustEval(t, `rabbit_vhost:delete(<<"%s">>, <<"test">>)`, host) })
	s.User(t, host, user, password, ".*")
	return host, user
}

// User creates a user who may configure, write and read what matches a pattern. The user is deleted
// when the test ends.
func (s *Server) User(t testing.TB, host, name, password, pattern string) {
	t.Helper()
	s.mustEval(t, `rabbit_auth_backend_internal:add_user(<<"%s">>, <<"%s">>, <<"test">>)`, name, password)
	t.Cleanup(func() { s.mustEval(t, `rabbit_auth_backend_internal:delete_user(<<"%s">>, <<"test">>)`, name) })
	p := strings.ReplaceAll(pattern, `\`, `\\`)
	s.mustEval(t, `rabbit_auth_backend_internal:set_permissions(<<"%s">>, <<"%s">>, <<"%s">>, <<"%s">>, <<"%s">>, `+
		`<<"test">>)`, name, host, p, p, p)
}
