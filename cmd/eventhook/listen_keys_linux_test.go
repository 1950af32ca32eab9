package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// terminalMode returns the mode of a terminal.
func terminalMode(t *testing.T, terminal *os.File) unix.Termios {
	t.Helper()
	mode, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *mode
}

// Keys control listen on a real terminal, whose mode is restored however the command ends.
func TestKeysOfListenOnATerminal(t *testing.T) {
	gateway := startInstance(t, pgtest.New(t))
	gateway.at(t, testAdminKey)
	requests := make(chan string, 10)
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { requests <- r.Header.Get("X-Github-Delivery") }))
	t.Cleanup(app.Close)
	if status, _, err := gateway.push(t.Context(), "one"); status != http.StatusOK {
		t.Fatal(status, err)
	}
	for claim, quit := range map[string]func(*os.File, *os.Process) error{
		"q":       func(user *os.File, _ *os.Process) error { _, err := user.WriteString("q"); return err },
		"Ctrl-C":  func(user *os.File, _ *os.Process) error { _, err := user.WriteString("\x03"); return err },
		"SIGINT":  func(_ *os.File, p *os.Process) error { return p.Signal(os.Interrupt) },
		"SIGTERM": func(_ *os.File, p *os.Process) error { return p.Signal(syscall.SIGTERM) },
	} {
		t.Run(claim, func(t *testing.T) {
			user, terminal := clitest.OpenTerminal(t, 120)
			before := terminalMode(t, terminal)
			cmd := exec.CommandContext(t.Context(), os.Args[0], "listen", "--since", "5m", "--forward", app.URL)
			cmd.Env = append(os.Environ(), "EVENTHOOK_TEST_AS_MAIN=1")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			clitest.ReadUntil(t, user, "q: quit.\r\n")
			clitest.ReadUntil(t, user, "  200  ")
			if during := terminalMode(t, terminal); during.Lflag&(unix.ICANON|unix.ECHO) != 0 {
				t.Error("the terminal waits for whole lines or shows keys, want a raw one")
			}
			press(t, user, "r", "(again)")
			press(t, user, "d", "> X-Github-Delivery: one\r\n")
			if err := quit(user, cmd.Process); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("the command ended with %v, want exit code 0", err)
			}
			if diff := cmp.Diff(before, terminalMode(t, terminal)); diff != "" {
				t.Errorf("the mode of the terminal (-before +after):\n%s", diff)
			}
			if first, second := <-requests, <-requests; first != "one" || second != "one" || len(requests) > 0 {
				t.Errorf("the program got %q, %q and %d more, want the webhook twice", first, second, len(requests))
			}
		})
	}
}

// A shell with job control stops a background job that changes the mode of its terminal.
func TestListenInTheBackgroundLeavesTheTerminalAlone(t *testing.T) {
	gateway := startInstance(t, pgtest.New(t))
	gateway.at(t, testAdminKey)
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(app.Close)
	if status, _, err := gateway.push(t.Context(), "one"); status != http.StatusOK {
		t.Fatal(status, err)
	}
	user, terminal := clitest.OpenTerminal(t, 120)
	const job = `set -m; "$0" listen --since 5m --count 1 --forward "$1" & wait; echo "it ended"`
	cmd := exec.CommandContext(t.Context(), "sh", "-c", job, os.Args[0], app.URL)
	cmd.Env = append(os.Environ(), "EVENTHOOK_TEST_AS_MAIN=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	shown := clitest.ReadUntil(t, user, "it ended")
	if !strings.Contains(shown, "press Ctrl-C to stop") || !strings.Contains(shown, "  200  ") {
		t.Errorf("got %q, want one webhook forwarded without keys", shown)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// press presses a key and reads the terminal until it shows a text.
func press(t *testing.T, user *os.File, key, want string) {
	t.Helper()
	if _, err := user.WriteString(key); err != nil {
		t.Fatal(err)
	}
	clitest.ReadUntil(t, user, want)
}
