package script

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hostileVariable holds a folder. If it is set, the test binary acts as a compromised child: it is
// confined like every child and then attempts forbidden actions.
const hostileVariable = "EVENTHOOK_SCRIPT_TEST_HOSTILE"

// This variable is initialized before init runs, which would serve jobs.
var _ = func() bool {
	if dir := os.Getenv(hostileVariable); dir != "" {
		confine()
		_ = json.NewEncoder(os.Stdout).Encode(attempts(dir))
		os.Exit(0)
	}
	return false
}()

// attempts attempts forbidden actions. It returns the error of each by the action's name, or "" if the
// action succeeded.
func attempts(dir string) map[string]string {
	const ioUringSetup = 425
	secret, args := filepath.Join(dir, "secret"), []string{"self", "-test.run=^$"}
	parent := uintptr(os.Getppid())
	faults := map[string]string{}
	for name, try := range map[string]func() error{
		"read a file":            func() error { _, err := os.ReadFile(secret); return err },
		"read the environment":   func() error { _, err := os.ReadFile("/proc/self/environ"); return err },
		"list a folder":          func() error { _, err := os.ReadDir("/"); return err },
		"write a file":           func() error { return os.WriteFile(filepath.Join(dir, "new"), []byte("x"), 0o600) },
		"remove a file":          func() error { return os.Remove(filepath.Join(dir, "absent")) },
		"a TCP socket":           func() error { return socket(syscall.AF_INET, syscall.SOCK_STREAM) },
		"a UDP socket":           func() error { return socket(syscall.AF_INET6, syscall.SOCK_DGRAM) },
		"a Unix socket":          func() error { return socket(syscall.AF_UNIX, syscall.SOCK_STREAM) },
		"a netlink socket":       func() error { return socket(syscall.AF_NETLINK, syscall.SOCK_RAW) },
		"dial":                   func() error { _, err := net.Dial("tcp", "127.0.0.1:1"); return err },
		"a program":              func() error { return exec.Command("/proc/self/exe", args[1:]...).Run() },
		"fork":                   fork,
		"io_uring":               func() error { return call(ioUringSetup, 1, uintptr(unsafe.Pointer(new([120]byte)))) },
		"executable memory":      executableMemory,
		"signal the parent":      func() error { return call(syscall.SYS_KILL, parent, 0) },
		"signal a thread of it":  func() error { return call(syscall.SYS_TGKILL, parent, parent) },
		"trace":                  func() error { return call(syscall.SYS_PTRACE, 0, 0) },
		"memory of the parent":   func() error { return call(unix.SYS_PROCESS_VM_READV, parent, 0) },
		"a limit of its own":     func() error { return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 1, Max: 1}) },
		"another name of a file": func() error { return os.Symlink(secret, filepath.Join(dir, "new")) },
	} {
		faults[name] = ""
		if err := try(); err != nil {
			faults[name] = err.Error()
		}
	}
	if err := syscall.Exec("/proc/self/exe", args, nil); err != nil { // last, since it would not return
		faults["execute"] = err.Error()
	}
	return faults
}

func socket(domain, kind int) error {
	_, err := syscall.Socket(domain, kind, 0)
	return err
}

func fork() error {
	pid, _, fault := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if fault == 0 && pid == 0 {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return errno(fault)
}

func executableMemory() error {
	_, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_EXEC, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	return err
}

func call(number, a, b uintptr) error {
	_, _, fault := syscall.RawSyscall6(number, a, b, 0, 0, 0, 0)
	return errno(fault)
}

func errno(fault syscall.Errno) error {
	if fault == 0 {
		return nil
	}
	return fault
}

// Code that broke out of an engine can read and write the two pipes and has no other access.
func TestACompromisedChildIsConfined(t *testing.T) {
	if err := Confinement(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append([]string{hostileVariable + "=" + dir}, childEnvironment...)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("the child ended: %v\n%s", err, exit.Stderr)
	}
	var faults map[string]string
	if err := json.Unmarshal(out, &faults); err != nil {
		t.Fatalf("the child printed %q: %v", out, err)
	}
	if len(faults) != 21 {
		t.Errorf("got %d attempts, want 21", len(faults))
	}
	for name, fault := range faults {
		if !strings.Contains(fault, "operation not permitted") {
			t.Errorf("%s: got %q, want operation not permitted", name, fault)
		}
	}
	if _, err := os.Stat(secret); err != nil {
		t.Error(err)
	}
}
