package gatewaytest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// process is a gateway that serves.
type process struct {
	cmd             *exec.Cmd
	url, management string
	ended           chan struct{}
}

// The beginnings of the lines in which a gateway prints its URLs.
const (
	announcesOwn        = "webhooks and API  "
	announcesManagement = "health, metrics   "
	announcesListener   = "listening at      " // after a public URL
)

// ownURL returns the beginning of the line with the URL at which the tests reach a gateway.
func ownURL(env []string) string {
	if slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "EVENTHOOK_PUBLIC_URL=") }) {
		return announcesListener
	}
	return announcesOwn
}

// launch starts a gateway and waits until it has announced its URLs.
func launch(program, listen string, env []string, log io.Writer) (*process, error) {
	p := &process{ended: make(chan struct{})}
	p.cmd = exec.Command(program, "serve", "--listen", listen, "--management-listen", "127.0.0.1:0")
	p.cmd.Env, p.cmd.Stderr, p.cmd.SysProcAttr = append(os.Environ(), env...), log, dieWithParent()
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started, read := make(chan error, 1), make(chan struct{})
	go p.runOnThread(started, read)
	if err := <-started; err != nil {
		return nil, err
	}
	own := ownURL(env)
	for lines := bufio.NewScanner(out); (p.url == "" || p.management == "") && lines.Scan(); {
		if _, url, ok := strings.Cut(lines.Text(), own); ok {
			p.url = url
		}
		if _, url, ok := strings.Cut(lines.Text(), announcesManagement); ok {
			p.management = url
		}
	}
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, out)
	}()
	if p.url == "" || p.management == "" {
		p.kill()
		return nil, fmt.Errorf("the gateway did not start")
	}
	return p, nil
}

// runOnThread starts the process and waits for its end. It keeps its thread, because the process
// dies with the thread that started it. Output must be read before Wait closes it.
func (p *process) runOnThread(started chan<- error, read <-chan struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.ended)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		<-read
		_ = p.cmd.Wait() // ExitCode tells
	}
}

// stop sends SIGTERM and returns an error for every exit code but 0.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.ended
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the gateway stopped with exit code %d", code)
	}
	return nil
}

// kill ends the process at once, as a crash would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}
