package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// readKeys calls quit when the user presses q or Ctrl-C, and pressed for every other key. It
// returns a function that restores the terminal. Without a terminal, and as a background job of a
// shell, readKeys reads nothing, and hasKeys is false.
func readKeys(stdin io.Reader, quit func(), pressed func(key byte)) (restore func(), hasKeys bool) {
	f, ok := stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || !isForeground(f) {
		return func() {}, false
	}
	state, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return func() {}, false
	}
	go awaitQuit(f, quit, pressed)
	return func() { _ = term.Restore(int(f.Fd()), state) }, true
}

// awaitQuit calls quit when a key that ends the command is read, or no more can be read.
func awaitQuit(keys io.Reader, quit func(), pressed func(key byte)) {
	const interrupt = 3 // Ctrl-C
	for key := make([]byte, 1); ; {
		if _, err := keys.Read(key); err != nil || key[0] == 'q' || key[0] == 'Q' || key[0] == interrupt {
			quit()
			return
		}
		pressed(key[0])
	}
}

// isForeground reports whether the process may change the mode of a terminal. A shell stops a
// background job that does. If the terminal does not control the process, it may.
func isForeground(terminal *os.File) bool {
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}
