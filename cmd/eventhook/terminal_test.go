package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
)

// userFolder returns a folder with the program in ./bin, and an npm that installs the libraries of a
// folder. hasKey adds the gateway's admin key in ./data.
func userFolder(t *testing.T, libraries string, hasKey bool) string {
	t.Helper()
	files := map[string]string{
		"bin/eventhook": "#!/bin/sh\nEVENTHOOK_TEST_AS_MAIN=1 exec '" + os.Args[0] + "' \"$@\"\n",
		"bin/npm":       "#!/bin/sh\nln -sfn '" + libraries + "' node_modules\n",
	}
	if hasKey {
		files["data/admin.key"] = testAdminKey + "\n"
	}
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// shellTerminal is a shell that runs blocks of commands one after another, with the variables and the
// background processes of the earlier ones.
type shellTerminal struct {
	*exec.Cmd
	t     *testing.T
	in    io.Writer
	out   *clitest.Buffer
	ended chan struct{}
	ran   int
}

// startTerminal starts a shell in a folder. The end of the test also ends its background processes.
func startTerminal(t *testing.T, dir, env string, start func(*exec.Cmd) error) *shellTerminal {
	t.Helper()
	s := &shellTerminal{Cmd: exec.Command("sh", "-eu"), t: t, out: &clitest.Buffer{}, ended: make(chan struct{})}
	s.Dir, s.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, env}
	s.Stdout, s.Stderr = s.out, s.out
	s.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.in = in
	if err := start(s.Cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = s.Wait()
		close(s.ended)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-s.Process.Pid, syscall.SIGKILL) // the group
		<-s.ended
		if t.Failed() {
			t.Logf("the terminal in %s:\n%s", dir, s.out)
		}
	})
	return s
}

// run runs a block of commands and waits for its end.
func (s *shellTerminal) run(block string) {
	s.t.Helper()
	s.ran++
	name, mark := fmt.Sprintf("block%d.sh", s.ran), fmt.Sprintf("== end of block %d\n", s.ran)
	if err := os.WriteFile(filepath.Join(s.Dir, name), []byte(block+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(s.in, "{ . ./%s; } </dev/null\nprintf '%%s' '%s'\n", name, mark); err != nil {
		s.t.Fatal(err)
	}
	clitest.Eventually(s.t, "the commands end:\n"+block, func() bool {
		select {
		case <-s.ended:
			s.t.Fatalf("the shell ended in\n%s", block)
		default:
		}
		return strings.Contains(s.out.String(), mark)
	})
}
