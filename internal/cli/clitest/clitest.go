package clitest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// unconfigured takes away what configures the machine that the test runs on.
func ClearEnvironment(t *testing.T) {
	t.Helper()
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if name == "DATABASE_URL" || strings.HasPrefix(name, "EVENTHOOK_") && name != "EVENTHOOK_TEST_DATABASE_URL" {
			t.Setenv(name, "") // an empty one says nothing
		}
	}
}

func WriteFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// eventually waits until a condition holds, whatever the machine's speed.
func Eventually(t *testing.T, claim string, holds func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("never: %s", claim)
		case <-tick.C:
		}
	}
}
