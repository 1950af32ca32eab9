package terminal_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// openTerminal returns both ends of a pseudo terminal with a width: the user's, and the
// program's.
func openTerminal(t *testing.T, columns uint16) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo terminals here: ", err)
	}
	fd := int(user.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = program.Close(), user.Close() })
	return user, program
}

func TestAQuestionIsAnsweredOnTheTerminal(t *testing.T) {
	for answer, confirmed := range map[string]bool{"y\n": true, "YES\n": true, " yes \n": true, "n\n": false, "\n": false, "yeah\n": false} {
		user, program := openTerminal(t, 80)
		cmd := &cobra.Command{}
		cmd.SetIn(program)
		cmd.SetErr(program)
		var c terminal.Confirmation
		c.AddTo(cmd)
		if _, err := user.WriteString(answer); err != nil {
			t.Fatal(err)
		}
		if err := c.Ask(cmd, "delete the source x\x1b[2J"); (err == nil) != confirmed {
			t.Errorf("%q: got %v, want confirmed %t", answer, err, confirmed)
		}
		said := make([]byte, 1000)
		n, err := user.Read(said)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(said[:n]); !strings.Contains(got, "Delete the source x [2J? [y/N] ") {
			t.Errorf("%q: asked %q", answer, got)
		}
	}
}

func TestNothingIsAskedWithYes(t *testing.T) {
	cmd := &cobra.Command{}
	var c terminal.Confirmation
	c.AddTo(cmd)
	if err := cmd.Flags().Set("yes", "true"); err != nil {
		t.Fatal(err)
	}
	if err := c.Ask(cmd, "delete it"); err != nil {
		t.Error(err)
	}
}

func TestOnlyATerminalHasAWidthAndColors(t *testing.T) {
	_, program := openTerminal(t, 57)
	null, err := os.Open(os.DevNull) // a character device, and no terminal
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	t.Setenv("TERM", "xterm")
	for _, c := range []struct {
		claim, noColor, term string
		w                    *os.File
		colors               bool
		columns              int
	}{
		{"a terminal", "", "xterm", program, true, 57},
		{"NO_COLOR", "1", "xterm", program, false, 57},
		{"a terminal without colors", "", "dumb", program, false, 57},
		{"/dev/null", "", "xterm", null, false, 0},
	} {
		t.Setenv("NO_COLOR", c.noColor)
		t.Setenv("TERM", c.term)
		if got, columns := terminal.HasColors(c.w), terminal.Columns(c.w); got != c.colors || columns != c.columns {
			t.Errorf("%s: got colors %t and %d columns, want %t and %d", c.claim, got, columns, c.colors, c.columns)
		}
	}
}
