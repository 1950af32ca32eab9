package terminal

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// size returns the width of a terminal. ok is false if the reader or writer is no terminal.
func size(stream any) (columns int, ok bool) {
	f, isFile := stream.(*os.File)
	if !isFile {
		return 0, false
	}
	s, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	return int(s.Col), true
}

// IsTerminal reports whether a reader or writer is a terminal.
func IsTerminal(stream any) bool {
	_, ok := size(stream)
	return ok
}

// Columns returns the width of a terminal in characters, or 0 if w is no terminal or does not
// know its width.
func Columns(w io.Writer) int {
	columns, _ := size(w)
	return columns
}

// HasColors reports whether texts on w may be colored: w is a terminal, and neither NO_COLOR
// nor TERM=dumb is set. Source: https://no-color.org.
func HasColors(w io.Writer) bool {
	return IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
