package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// process is a server that the bench started.
type process struct{ cmd *exec.Cmd }

// start runs a program and waits until it prints a line with its address. The address
// is the text after the given line.
func start(ctx context.Context, line, binary string, env []string, args ...string) (*process, string, error) {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), line); ok {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return &process{cmd}, address, nil
		}
	}
	return nil, "", fmt.Errorf("%s printed no address: %w", filepath.Base(binary), cmd.Wait())
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
}

// cpu returns the processor time of the process in microseconds.
func (p *process) cpu() float64 { return readStat(p.cmd.Process.Pid).cpu }

// databaseCPU returns the processor time of the running PostgreSQL processes of the
// gateway in microseconds.
func (g *gateway) databaseCPU() (sum float64) {
	raw, err := os.ReadFile(filepath.Join(g.dir, "postgres", "postmaster.pid"))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	postmaster, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if s := readStat(pid); s.parent == postmaster {
			sum += s.cpu
		}
	}
	return sum
}

// stat is the state of a process in Linux. It is zero on other systems.
type stat struct {
	parent int
	cpu    float64 // microseconds
}

func readStat(pid int) (s stat) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s // not on Linux, or the process has ended
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	const parent, utime, stime, tick = 1, 11, 12, 10_000
	s.parent, _ = strconv.Atoi(fields[parent])
	for _, f := range []string{fields[utime], fields[stime]} {
		n, _ := strconv.ParseFloat(f, 64)
		s.cpu += n * tick
	}
	return s
}

// raiseToMemory raises peak to the memory that the process has now, in bytes. It needs
// Linux.
func (p *process) raiseToMemory(peak *float64) error {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	bytes, err := residentBytes(string(raw))
	*peak = max(*peak, bytes)
	return err
}

// residentBytes returns VmRSS of a process status of Linux.
func residentBytes(status string) (bytes float64, err error) {
	const name, unit, kilo = "\nVmRSS:", "kB", 1 << 10
	_, rest, found := strings.Cut(status, name)
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(line, unit)), 64)
	if !found || err != nil {
		return 0, fmt.Errorf("memory: %q is not a number of kB", line)
	}
	return n * kilo, nil
}
