package script

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// patience is how many times its limit a job may take before its process is
// killed. JavaScript is stopped by its engine at its limit; what goes on is
// inside one native call, or is JMESPath.
const patience = 3

// startLimit is how long a process may take to start.
const startLimit = 10 * time.Second

// process is a child that does one job after the other.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when the child is gone
	in    *os.File
	out   *os.File
	r     *bufio.Reader
	w     *bufio.Writer
}

// start starts a child and waits until it is ready. The child gets none of
// our environment, which holds secrets, and keeps none of our files.
func start() (*process, error) {
	in, out, cmd, err := launch()
	if err != nil {
		return nil, fmt.Errorf("start a script process: %w", err)
	}
	p := &process{cmd: cmd, ended: make(chan struct{}), in: in, out: out, r: bufio.NewReader(out), w: bufio.NewWriter(in)}
	go p.wait()
	err = out.SetReadDeadline(time.Now().Add(startLimit))
	if err == nil {
		_, _, err = readReply(p.r)
	}
	if err != nil {
		p.kill()
		return nil, fmt.Errorf("start a script process: %w", err)
	}
	return p, nil
}

func launch() (in, out *os.File, cmd *exec.Cmd, err error) {
	path, err := self()
	if err != nil {
		return nil, nil, nil, err
	}
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		_, _ = childIn.Close(), in.Close()
		return nil, nil, nil, err
	}
	cmd = &exec.Cmd{Path: path, Args: []string{"eventhook-script"}, Env: childEnvironment, Dir: "/", Stdin: childIn, Stdout: childOut, SysProcAttr: attributes()}
	err = startConfined(cmd)
	_, _ = childIn.Close(), childOut.Close()
	if err != nil {
		_, _ = in.Close(), out.Close()
	}
	return in, out, cmd, err
}

// wait takes note of the child's end, whoever brings it about, so that
// nothing of it is left in the system.
func (p *process) wait() {
	_ = p.cmd.Wait()
	close(p.ended)
}

// errUnsent says that the child had ended before it was sent all of a job, and
// so has done nothing of it.
var errUnsent = errors.New("script: the process had ended before")

// do has the child do a job. After an error the child is of no use.
func (p *process) do(j job) (output []byte, fault *Error, err error) {
	until := time.Now().Add(patience * j.limit)
	if err := p.in.SetWriteDeadline(until); err != nil {
		return nil, nil, err
	}
	if err := p.out.SetReadDeadline(until); err != nil {
		return nil, nil, err
	}
	switch err := writeJob(p.w, j); {
	case errors.Is(err, syscall.EPIPE):
		return nil, nil, errUnsent
	case err != nil:
		return nil, nil, err
	}
	return readReply(p.r)
}

// kill ends the child and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
	_, _ = p.in.Close(), p.out.Close()
}
