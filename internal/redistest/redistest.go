// Package redistest runs servers of Redis for tests. It is for tests only.
package redistest

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/servertest"
)

// Server is a server of Redis that a test may stop and start again, with its address and its data.
type Server struct {
	t       testing.TB
	program string
	config  string
	port    int
	process *servertest.Process // nil while it is stopped
}

// New starts a server with lines of configuration, such as "requirepass secret". It ends with the test.
// Without Redis it skips the test; in CI, as root, it fails the test.
func New(t testing.TB, lines ...string) *Server {
	t.Helper()
	s := &Server{t: t, program: servertest.Program(t, "redis-server")}
	ports, err := servertest.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	s.port = ports[0]
	dir := t.TempDir()
	base := []string{"bind 127.0.0.1", fmt.Sprintf("port %d", s.port), "dir " + dir,
		"appendonly yes", "appendfsync no", `save ""`}
	s.config = filepath.Join(dir, "redis.conf") // the last line of a setting counts
	if err := os.WriteFile(s.config, []byte(strings.Join(append(base, lines...), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(s.end)
	return s
}

// Address returns the host and the port of the server, also while it is stopped.
func (s *Server) Address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// Start starts a server that was stopped, and waits until it accepts connections.
func (s *Server) Start() {
	s.t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(s.program, s.config)
	cmd.Stdout, cmd.Stderr = in, in
	s.process, err = servertest.Start(cmd)
	_ = in.Close()
	if err != nil {
		_ = out.Close()
		s.t.Fatalf("redistest: %v", err)
	}
	s.await(out)
}

// await reads the log of the server until the server is ready. It discards later lines.
func (s *Server) await(out *os.File) {
	s.t.Helper()
	var log bytes.Buffer
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(strings.ToLower(lines.Text()), "ready to accept connections") {
			go func() {
				defer func() { _ = out.Close() }()
				for lines.Scan() {
				}
			}()
			return
		}
		fmt.Fprintln(&log, lines.Text())
	}
	_ = out.Close()
	s.t.Fatalf("redistest: the server does not start:\n%s", &log)
}

// Stop ends the server. Its data stays.
func (s *Server) Stop() {
	s.process.Terminate()
	s.process = nil
}

// Pause makes the server answer nothing until Resume.
func (s *Server) Pause() { s.process.Pause() }

// Resume continues a paused server.
func (s *Server) Resume() { s.process.Resume() }

func (s *Server) end() {
	if s.process != nil {
		s.process.Kill()
	}
}
