package clitest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// OpenTerminal returns both ends of a pseudo terminal with a width: the user's, and the
// program's. It skips the test if there are no pseudo terminals.
func OpenTerminal(t *testing.T, columns uint16) (user, program *os.File) {
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

// ReadUntil reads what a terminal shows, in parts, until it contains a text. The test times out if
// the text does not come.
func ReadUntil(t *testing.T, user *os.File, text string) (all string) {
	t.Helper()
	for !strings.Contains(all, text) {
		part := make([]byte, 1000)
		n, err := user.Read(part)
		if err != nil {
			t.Fatalf("read %q: %v, want %q", all, err, text)
		}
		all += string(part[:n])
	}
	return all
}
