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

// killFactor is the multiple of the time limit of a job after which its process is killed. The engine
// stops JavaScript at the time limit, except during a native call. JMESPath can only be stopped by
// ending its process.
const killFactor = 3

// startLimit is the timeout for starting a process.
const startLimit = 10 * time.Second

// process is a child that runs one job at a time.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when the child has ended
	in    *os.File
	out   *os.File
	r     *bufio.Reader
	w     *bufio.Writer
	used  time.Duration // processor time of the child before its last job
}

// start starts a child and waits until it is ready. The child inherits neither the environment,
// which holds secrets, nor open files of the gateway.
func start(of priority) (*process, error) {
	in, out, cmd, err := launch(of)
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

func launch(of priority) (in, out *os.File, cmd *exec.Cmd, err error) {
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
	cmd = &exec.Cmd{Path: path, Args: []string{"eventhook-script"}, Env: of.environment(), Dir: "/", Stdin: childIn, Stdout: childOut,
		SysProcAttr: attributes()}
	err = startConfined(cmd, of)
	_, _ = childIn.Close(), childOut.Close()
	if err != nil {
		_, _ = in.Close(), out.Close()
	}
	return in, out, cmd, err
}

// wait reaps the child when it ends.
func (p *process) wait() {
	_ = p.cmd.Wait()
	close(p.ended)
}

// errUnsent reports that the child ended before it received the whole job, so nothing of the job
// ran.
var errUnsent = errors.New("script: the process ended before it received the job")

// do runs a job in the child. After an error the child cannot be used again.
func (p *process) do(j job) (output []byte, fault *Error, err error) {
	p.used = processorTimeOf(p.cmd.Process.Pid)
	until := time.Now().Add(killFactor * j.limit)
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

// jobTime is the processor time that the last job has used. The child must not have been killed.
func (p *process) jobTime() time.Duration { return processorTimeOf(p.cmd.Process.Pid) - p.used }

// kill ends the child and waits until it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
	_, _ = p.in.Close(), p.out.Close()
}
