// Package process starts servers for measurements, stops and kills them, and reads their
// processor time and memory. The readings need Linux.
package process

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Process is a server that Start started. Stop or Kill must be called, and only once.
type Process struct{ cmd *exec.Cmd }

// Command describes a program. Env is added to the environment of this process. A nil Stderr is
// that of this process.
type Command struct {
	Binary string
	Args   []string
	Env    []string
	Stderr io.Writer
}

// Start runs a program until ctx ends, which sends SIGTERM. It waits until the program has printed
// a line with each of the prefixes, in their order, and returns the texts after these, such as
// addresses.
func Start(ctx context.Context, c Command, prefixes ...string) (*Process, []string, error) {
	cmd := exec.CommandContext(ctx, c.Binary, c.Args...)
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Stderr = os.Stderr
	if c.Stderr != nil {
		cmd.Stderr = c.Stderr
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	found := make([]string, 0, len(prefixes))
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, text, ok := strings.Cut(lines.Text(), prefixes[len(found)]); ok {
			found = append(found, text)
		}
		if len(found) == len(prefixes) {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return &Process{cmd}, found, nil
		}
	}
	return nil, nil, fmt.Errorf("%s did not print %q: %w", filepath.Base(c.Binary), prefixes[len(found)], cmd.Wait())
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop sends SIGTERM and waits for the end of the process. It returns an error for every exit
// code but 0.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	return p.cmd.Wait()
}

// Kill ends the process with SIGKILL, as a crash would, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// CPU returns the processor time in microseconds.
func (p *Process) CPU() float64 { return readStat(p.PID()).cpu }

// Memory returns the resident memory in bytes.
func (p *Process) Memory() (float64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	return residentBytes(string(raw))
}
