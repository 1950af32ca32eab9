package packages_test

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// The unit does not restart a gateway with a wrong configuration, exit code 2. Go's runtime ends a
// crashed process with the same code, unless the unit's environment says otherwise.
func TestTheUnitRestartsAGatewayThatCrashed(t *testing.T) {
	if os.Getenv("CRASH") != "" {
		done := make(chan struct{})
		go func() { panic("on purpose") }()
		<-done
	}
	raw, err := os.ReadFile("../systemd/eventhook.service")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = []string{"CRASH=1"}
	lines := strings.Split(string(raw), "\n")
	for _, line := range lines {
		if variable, ok := strings.CutPrefix(line, "Environment="); ok {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Dir = t.TempDir()
	exit, ok := errors.AsType[*exec.ExitError](cmd.Run())
	if !ok {
		t.Fatal("the process did not crash")
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGABRT {
		t.Errorf("a crash ends with %s, want SIGABRT, which Restart=on-failure restarts", exit)
	}
	if !slices.Contains(lines, "LimitCORE=0") {
		t.Error("a crash may write a core file, which contains the keys")
	}
}
