package rabbittest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/eventhook/eventhook/internal/servertest"
)

// run starts the port mapper of Erlang and the server. Without a port mapper, Erlang would start one
// that outlives the test.
func (s *Server) run() (err error) {
	mapper := exec.Command(s.programs.epmd, "-port", fmt.Sprint(s.ports.epmd), "-address", "127.0.0.1")
	if s.epmd, err = servertest.Start(mapper); err != nil {
		return err
	}
	config := fmt.Sprintf("listeners.tcp.1 = %s\nlisteners.ssl.1 = %s\n", s.Address(), s.TLSAddress()) +
		fmt.Sprintf("ssl_options.certfile = %s\nssl_options.keyfile = %s\n", s.path("tls.crt"), s.path("tls.key"))
	for name, text := range map[string]string{"rabbitmq.conf": config, "plugins": "[].\n"} {
		if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return s.startNode()
}

func (s *Server) path(name string) string { return filepath.Join(s.dir, name) }

// environment returns the variables of the server. With RABBITMQ_ALLOW_INPUT, it reads expressions.
func (s *Server) environment() []string {
	return append(os.Environ(), "HOME="+s.dir, "RABBITMQ_ALLOW_INPUT=1",
		"RABBITMQ_CONF_ENV_FILE="+s.path("none"), "RABBITMQ_CONFIG_FILE="+s.path("rabbitmq"),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+s.path("plugins"), "RABBITMQ_MNESIA_BASE="+s.path("data"),
		"RABBITMQ_LOG_BASE="+s.dir, "RABBITMQ_LOGS="+s.path("log"),
		"RABBITMQ_NODENAME=rabbittest@localhost", fmt.Sprintf("RABBITMQ_DIST_PORT=%d", s.ports.distribution),
		fmt.Sprintf("ERL_EPMD_PORT=%d", s.ports.epmd), "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}")
}

// node is a running server, which reads Erlang expressions.
type node struct {
	process *servertest.Process
	in      *os.File

	mu     sync.Mutex // of the dialogue
	out    *os.File
	lines  *bufio.Scanner
	number int // of the last expression
}

func (s *Server) startNode() error {
	input, in, err := os.Pipe()
	if err != nil {
		return err
	}
	out, output, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command(s.programs.server)
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.environment(), s.dir, input, output, output
	n := &node{in: in, out: out, lines: bufio.NewScanner(out)}
	n.process, err = servertest.Start(cmd)
	_, _ = input.Close(), output.Close()
	if err != nil {
		return err
	}
	s.node = n
	if _, err := n.eval(awaitStart); err != nil {
		log, _ := os.ReadFile(s.path("log"))
		return fmt.Errorf("the server does not start: %w\n%s", err, log)
	}
	return nil
}

// awaitStart ends when the server accepts connections. Without a node to ask, as during the start,
// rabbit:await_startup fails.
const awaitStart = "(fun Await() -> case rabbit:is_running() of true -> ok; " +
	"false -> timer:sleep(10), Await() end end)()"

var errNoValue = errors.New("the expression has no value")

// eval evaluates an expression. A line after it tells that its value would have come before.
func (n *node) eval(expression string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.number++
	value, end := fmt.Sprintf("value %d ", n.number), fmt.Sprintf("end %d", n.number)
	const dialogue = "io:format(\"~n%s~0p~n\", [(catch begin %s end)]).\nio:format(\"~n%s~n\").\n"
	if _, err := fmt.Fprintf(n.in, dialogue, value, expression, end); err != nil {
		return "", err
	}
	result, found := "", false
	for n.lines.Scan() {
		line := n.lines.Text()
		if line == end && !found {
			return "", errNoValue
		} else if line == end {
			return result, nil
		}
		if text, isValue := strings.CutPrefix(line, value); isValue {
			result, found = text, true
		}
	}
	return "", errors.New("the server has ended")
}

// terminate stops the server in order.
func (n *node) terminate() {
	n.process.Terminate()
	n.close()
}

func (n *node) close() { _, _ = n.in.Close(), n.out.Close() }

// end ends all at once.
func (s *Server) end() {
	if s.node != nil {
		s.node.process.Kill()
		s.node.close()
	}
	if s.epmd != nil {
		s.epmd.Kill()
	}
	_ = os.RemoveAll(s.dir)
}
