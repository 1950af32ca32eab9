//go:build !linux

package script

import (
	"os"
	"os/exec"
	"syscall"
)

// confine does nothing: such systems do not bound what matters here, and the
// engines' own limits have to do.
func confine() {}

func self() (string, error) { return os.Executable() }

func startConfined(cmd *exec.Cmd) error { return cmd.Start() }

func attributes() *syscall.SysProcAttr { return nil }
