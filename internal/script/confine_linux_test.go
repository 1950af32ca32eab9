package script

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A child inherits no file that the gateway itself inherited, and cannot gain privileges.
func TestAChildIsConfined(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Open(secret, syscall.O_RDONLY, 0) // without O_CLOEXEC
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	t.Setenv("EVENTHOOK_ENCRYPTION_KEYS", "a-secret")
	before := ownPrivileges(t)
	pool := newPatientPool(t, 1)
	if err := pool.Check(t.Context(), fine); err != nil {
		t.Fatal(err)
	}
	proc := fmt.Sprintf("/proc/%d", pool.idleProcesses()[0].cmd.Process.Pid)
	files, err := filepath.Glob(proc + "/fd/*")
	if err != nil || len(files) < 3 {
		t.Fatalf("got %d open files, %v; want at least 3", len(files), err)
	}
	for _, f := range files {
		if at, _ := os.Readlink(f); at == secret {
			t.Errorf("got %s open in the child, want it closed", at)
		}
	}
	environ, err := os.ReadFile(proc + "/environ")
	if got, want := strings.TrimRight(string(environ), "\x00"), strings.Join(childEnvironment, "\x00"); err != nil || got != want {
		t.Errorf("environment of the child: got %q, %v; want %q", got, err, want)
	}
	wanted := []string{"NoNewPrivs:\t1\n"}
	if Confinement() == nil {
		wanted = append(wanted, "Seccomp:\t2\n") // a filter
	}
	threads, err := filepath.Glob(proc + "/task/*/status")
	if err != nil || len(threads) == 0 {
		t.Fatalf("got %d threads, %v; want at least 1", len(threads), err)
	}
	for _, thread := range threads {
		text, _ := os.ReadFile(thread)
		for _, want := range wanted {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: got\n%s\nwant %q", thread, text, want)
			}
		}
	}
	stats, _ := filepath.Glob(proc + "/task/*/stat")
	for _, stat := range stats {
		text, _ := os.ReadFile(stat)
		_, fields, _ := strings.Cut(string(text), ") ")
		const nice = 16 // index of the field nice of proc_pid_stat(5), counted from the field state
		if got := strings.Fields(fields); len(got) <= nice || got[nice] != "10" {
			t.Errorf("%s: got %q, want a niceness of 10", stat, got)
		}
	}
	if text, err := os.ReadFile(proc + "/autogroup"); err == nil && !strings.HasSuffix(strings.TrimSpace(string(text)), "nice 10") {
		t.Errorf("got the session's priority %s, want a niceness of 10", text)
	}
	if text, _ := os.ReadFile(proc + "/limits"); !strings.Contains(strings.Join(strings.Fields(string(text)), " "), "Max open files 16 16 files") {
		t.Errorf("got the limits\n%s\nwant at most 16 open files", text)
	}
	if after := ownPrivileges(t); after != before {
		t.Errorf("NoNewPrivs of the test process: got %q, want %q as before", after, before)
	}
}

func ownPrivileges(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	_, line, ok := strings.Cut(string(text), "NoNewPrivs:")
	if err != nil || !ok {
		t.Fatalf("read the status of the test process: %v", err)
	}
	line, _, _ = strings.Cut(line, "\n")
	return line
}

// A process of a prompt pool has the priority of the gateway.
func TestPriorityOfProcesses(t *testing.T) {
	for _, c := range []struct {
		of   priority
		want int
	}{{lowPriority, niceness}, {normalPriority, nicenessOf(t, os.Getpid())}} {
		worker, err := start(c.of)
		if err != nil {
			t.Fatal(err)
		}
		got := nicenessOf(t, worker.cmd.Process.Pid)
		if worker.kill(); got != c.want {
			t.Errorf("normal priority %t: got a niceness of %d, want %d", c.of, got, c.want)
		}
	}
}

// nicenessOf returns the nice value of a process.
func nicenessOf(t *testing.T, pid int) int {
	t.Helper()
	const kernelMax = 20 // getpriority(2) returns 20 minus the nice value
	n, err := syscall.Getpriority(syscall.PRIO_PROCESS, pid)
	if err != nil {
		t.Fatal(err)
	}
	return kernelMax - n
}

// A process that was killed at the time limit, but had no processor until then, was starved.
func TestAStoppedProcessIsStarved(t *testing.T) {
	pool := newPatientPool(t, 1)
	if err := pool.Check(t.Context(), fine); err != nil {
		t.Fatal(err)
	}
	pool.limit = 50 * time.Millisecond
	if err := pool.idleProcesses()[0].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_, err := pool.Run(t.Context(), fine, []byte("1"))
	if fault, ok := errors.AsType[*Error](err); !ok || fault.Reason != Starved {
		t.Errorf("got %v, want that the run was starved", err)
	}
}

// A check whose process was starved is repeated in another process.
func TestAStarvedCheckIsRepeated(t *testing.T) {
	pool := newPatientPool(t, 1)
	if err := pool.Check(t.Context(), fine); err != nil {
		t.Fatal(err)
	}
	pool.limit = TimeLimit
	if err := pool.idleProcesses()[0].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := pool.Check(t.Context(), fine); err != nil {
		t.Errorf("got %v, want that the check is repeated", err)
	}
}

// The processor time of a process grows with its work.
func TestProcessorTimeOfAProcess(t *testing.T) {
	before := processorTimeOf(os.Getpid())
	for processorTime() < before+20*time.Millisecond {
		continue
	}
	if used := processorTimeOf(os.Getpid()) - before; used < 10*time.Millisecond || used > 10*time.Second {
		t.Errorf("got %s, want about 20ms", used)
	}
	if used := processorTimeOf(1<<22 + 1); used != 0 {
		t.Errorf("a process that does not exist: got %s, want 0", used)
	}
}
