// Package servertest runs programs of other projects, such as Redis, as servers of a test. A server
// ends with its test binary, also if the binary is killed. It is for tests only.
package servertest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// Program returns the path of the first of the programs that exists. Without them it skips the test,
// and fails it where make could have installed them.
func Program(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	message := fmt.Sprintf("%s is missing: run make servers", names[0])
	if os.Getenv("CI") == "true" && os.Geteuid() == 0 {
		t.Fatal(message)
	}
	t.Skip(message)
	return ""
}

// FreePorts returns n TCP ports of 127.0.0.1 on which nothing listens.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }()        // after all are chosen, so that they differ
		ports[i] = l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of a TCP listener
	}
	return ports, nil
}

// Process is a program that was started.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// Start starts a program. Its output must not be pipes of exec.Cmd, which Wait would close.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	cmd.SysProcAttr = dieWithParent()
	started := make(chan error, 1)
	go p.runOnThread(started)
	return p, <-started
}

// runOnThread starts the process and waits for its end. It keeps its thread, because the process
// dies with the thread that started it.
func (p *Process) runOnThread(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.ended)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait() // a server may end as it likes
	}
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Terminate asks the process to end, and waits until it has ended.
func (p *Process) Terminate() { p.end(syscall.SIGTERM) }

// Kill ends the process at once, as a crash would.
func (p *Process) Kill() { p.end(syscall.SIGKILL) }

// Pause stops the process: its connections stay open, and it answers nothing. Resume continues it.
func (p *Process) Pause() {
	if p.cmd.Process.Signal(syscall.SIGSTOP) == nil {
		awaitStop(p.cmd.Process.Pid)
	}
}

// Resume continues a paused process.
func (p *Process) Resume() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

func (p *Process) end(by os.Signal) {
	if err := p.cmd.Process.Signal(by); errors.Is(err, os.ErrProcessDone) {
		return
	}
	<-p.ended
}
