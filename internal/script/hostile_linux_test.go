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
)

// hostileVariable names a folder and makes the test binary a child that was
// taken over: it is confined like every child, then tries to get out.
const hostileVariable = "EVENTHOOK_SCRIPT_TEST_HOSTILE"

// The initializers of variables run before init, which would serve jobs.
var _ = func() bool {
	if dir := os.Getenv(hostileVariable); dir != "" {
		confine()
		_ = json.NewEncoder(os.Stdout).Encode(attempts(dir))
		os.Exit(0)
	}
	return false
}()

// attempts tries what a child must not do, and returns the errors by name, ""
// where it worked.
func attempts(dir string) map[string]string {
	tcp := func(domain, kind int) error {
		_, err := syscall.Socket(domain, kind, 0)
		return err
	}
	_, _, fork := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if fork == 0 && os.Getppid() == 1 {
		os.Exit(0)
	}
	const ioUringSetup = 425
	_, _, ring := syscall.RawSyscall(ioUringSetup, 1, uintptr(unsafe.Pointer(new([120]byte))), 0)
	_, code := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_EXEC, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	_, read := os.ReadFile(filepath.Join(dir, "secret"))
	_, environ := os.ReadFile("/proc/self/environ")
	_, list := os.ReadDir("/")
	_, dial := net.Dial("tcp", "127.0.0.1:1")
	list2 := map[string]error{
		"read a file": read, "read /proc/self/environ": environ, "list a folder": list,
		"write a file":  os.WriteFile(filepath.Join(dir, "new"), []byte("x"), 0o600),
		"remove a file": os.Remove(filepath.Join(dir, "secret")),
		"TCP":           tcp(syscall.AF_INET, syscall.SOCK_STREAM), "UDP": tcp(syscall.AF_INET6, syscall.SOCK_DGRAM),
		"a Unix socket": tcp(syscall.AF_UNIX, syscall.SOCK_STREAM), "netlink": tcp(syscall.AF_NETLINK, syscall.SOCK_RAW),
		"dial":    dial,
		"execute": syscall.Exec("/proc/self/exe", nil, nil),
		"a process": func() error {
			return exec.Command("/proc/self/exe").Start()
		}(),
		"fork": errno(fork), "io_uring": errno(ring), "executable memory": code,
		"signal the parent": syscall.Kill(os.Getppid(), 0),
		"signal a thread of the parent": func() error {
			_, _, fault := syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(os.Getppid()), uintptr(os.Getppid()), 0)
			return errno(fault)
		}(),
		"trace": errno(func() syscall.Errno {
			_, _, fault := syscall.RawSyscall6(syscall.SYS_PTRACE, 0, 0, 0, 0, 0, 0)
			return fault
		}()),
	}
	said := map[string]string{}
	for name, err := range list2 {
		said[name] = ""
		if err != nil {
			said[name] = err.Error()
		}
	}
	return said
}

func errno(fault syscall.Errno) error {
	if fault == 0 {
		return nil
	}
	return fault
}

// What is behind the engines: code that broke out of one can read and write the
// two pipes, and nothing else.
func TestAHostileChildCannotGetOut(t *testing.T) {
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
	var said map[string]string
	if err := json.Unmarshal(out, &said); err != nil {
		t.Fatalf("the child said %q: %v", out, err)
	}
	if len(said) < 18 {
		t.Errorf("got %d attempts, want 18", len(said))
	}
	for name, fault := range said {
		if !strings.Contains(fault, "operation not permitted") {
			t.Errorf("%s: got %q, want that it is not permitted", name, fault)
		}
	}
	if _, err := os.Stat(secret); err != nil {
		t.Error(err)
	}
}
