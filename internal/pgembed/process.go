package pgembed

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/eventhook/eventhook/internal/proc"
)

const (
	exitPoll = 10 * time.Millisecond
	// forceLimit is the timeout of an immediate shutdown. PostgreSQL's own timeout for
	// its children is five seconds.
	forceLimit = 10 * time.Second
)

// process is a postmaster: launched by this process, or adopted.
type process struct {
	pid     int
	cluster string
	done    chan struct{} // closed when the process has ended; nil: the process was adopted
	log     string        // the log file of a launched process
	logFrom int64         // the size of the log before the launch
}

func adopted(pid int, cluster string) process { return process{pid: pid, cluster: cluster} }

// launch starts a postmaster in a session of its own, so that an interrupt from the terminal
// reaches only the gateway.
func (s *Server) launch() error {
	if err := s.place.makeSockets(); err != nil {
		return err
	}
	if err := removeForeignPIDFile(s.place); err != nil {
		return err
	}
	p := process{cluster: s.place.cluster, done: make(chan struct{}), log: filepath.Join(s.opts.DataDir, "postgres.log")}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	if p.logFrom, err = out.Seek(0, 2); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), s.arguments()...)
	s.prepare(cmd)
	cmd.Stdout, cmd.Stderr = out, out
	if s.opts.DieWithParent {
		dieWithParent(cmd.SysProcAttr)
	}
	if p.pid, err = start(cmd, p.done); err != nil {
		return err
	}
	s.proc = p
	return nil
}

// start starts cmd and closes done when it has ended. The same thread starts cmd and waits
// for it, because the kernel treats the end of the starting thread as the death of the
// parent.
func start(cmd *exec.Cmd, done chan<- struct{}) (pid int, err error) {
	started := make(chan error)
	go proc.Unprivileged(func() {
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(done)
		}
	})
	if err := <-started; err != nil {
		return 0, err
	}
	return cmd.Process.Pid, nil
}

func (p process) launched() bool { return p.done != nil }

func (p process) alive() bool {
	if !p.launched() {
		return isPostmaster(p.pid, p.cluster)
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// wait waits until the postmaster has ended, and returns the error of ctx if ctx ends first.
func (p process) wait(ctx context.Context) error {
	for p.alive() {
		if err := pause(ctx, exitPoll); err != nil {
			return err
		}
	}
	return nil
}

// quit requests an immediate shutdown, in which the postmaster frees its shared memory. The
// next start recovers from the write-ahead log.
func (p process) quit() error {
	if p.alive() {
		_ = syscall.Kill(p.pid, syscall.SIGQUIT)
	}
	ctx, cancel := context.WithTimeout(context.Background(), forceLimit)
	defer cancel()
	if p.wait(ctx) != nil {
		return p.kill()
	}
	return nil
}

// kill ends the postmaster and its children, which have sessions of their own. The postmaster
// is stopped first, so that it starts no more children.
func (p process) kill() error {
	if !p.alive() {
		return nil
	}
	_ = syscall.Kill(p.pid, syscall.SIGSTOP)
	family := append(proc.Children(p.pid), p.pid)
	for _, pid := range family {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	ctx, cancel := context.WithTimeout(context.Background(), forceLimit)
	defer cancel()
	for _, pid := range family {
		for proc.CommandLine(pid) != "" {
			if err := pause(ctx, exitPoll); err != nil {
				return fmt.Errorf("kill process %d: %w", pid, err)
			}
		}
	}
	return p.wait(ctx)
}
