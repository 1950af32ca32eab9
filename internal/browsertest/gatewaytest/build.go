package gatewaytest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/eventhook/eventhook/internal/browsertest"
)

// built is the program of this test binary, in a folder of its own.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// program builds the gateway once and returns its path.
func program(t testing.TB) string {
	t.Helper()
	root := browsertest.Root(t)
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "gatewaytest-"); built.err == nil {
			built.err = build(root, filepath.Join(built.dir, "eventhook"))
		}
	})
	if built.err != nil {
		t.Fatalf("gatewaytest: %v", built.err)
	}
	return filepath.Join(built.dir, "eventhook")
}

// build builds the program in .cache, where Go links it only after a change, and copies it. A lock
// keeps the builds of other test binaries away meanwhile.
func build(root, to string) error {
	dir := filepath.Join(root, ".cache", "gatewaytest")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	from := filepath.Join(dir, "eventhook")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", from, "./cmd/eventhook")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	raw, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, raw, 0o755) //nolint:gosec // a program
}
