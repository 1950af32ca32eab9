package proc_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/proc"
)

// childVariable makes the test binary a child that waits for the end of its input.
const childVariable = "PROC_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		_, _ = os.Stdin.Read(make([]byte, 1))
		return
	}
	os.Exit(m.Run())
}

func child(argument string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], argument)
	cmd.Env = []string{childVariable + "=1"}
	return cmd
}

// With an empty PATH, proc can run neither ps nor pgrep.
func TestProcessesAreFoundWithoutPrograms(t *testing.T) {
	t.Setenv("PATH", "")
	cmd := child("some words) (here")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	want := os.Args[0] + "\x00some words) (here"
	if got := proc.CommandLine(pid); got != want {
		t.Errorf("CommandLine: got %q, want %q", got, want)
	}
	if got := proc.CommandLines(); !slices.Contains(got, want) {
		t.Errorf("CommandLines: got %q, want %q among them", got, want)
	}
	if got := proc.Children(os.Getpid()); !slices.Equal(got, []int{pid}) {
		t.Errorf("Children: got %d, want %d", got, pid)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := proc.CommandLine(pid); got != "" {
		t.Errorf("CommandLine of a process that ended: got %q, want none", got)
	}
	if got := proc.Children(os.Getpid()); len(got) != 0 {
		t.Errorf("Children: got %d, want none", got)
	}
}

func TestUnprivilegedRestrictsOnlyItsThread(t *testing.T) {
	isSet := func() bool {
		status, err := os.ReadFile("/proc/thread-self/status")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(status), "NoNewPrivs:\t1\n")
	}
	before := isSet()
	var inside bool
	proc.Unprivileged(func() { inside = isSet() })
	if !inside {
		t.Error("no_new_privs is not set in Unprivileged")
	}
	for range 20 { // goroutines on threads that were started since
		after := make(chan bool)
		go func() { after <- isSet() }()
		if <-after != before {
			t.Fatalf("no_new_privs outside: got %t, want %t", !before, before)
		}
	}
}
