//go:build !linux

package script

import (
	"os"
	"syscall"
)

// confine does nothing: such systems do not bound what matters here, and the
// engines' own limits have to do.
func confine() {}

func self() (string, error) { return os.Executable() }

func attributes() *syscall.SysProcAttr { return nil }
