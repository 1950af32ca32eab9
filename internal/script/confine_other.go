//go:build !linux

package script

import (
	"os"
	"os/exec"
	"syscall"
	"time"
)

// confine does nothing: such systems do not bound what matters here, and the
// engines' own limits have to do.
func confine() {}

func self() (string, error) { return os.Executable() }

func startConfined(cmd *exec.Cmd) error { return cmd.Start() }

func attributes() *syscall.SysProcAttr { return nil }

var began = time.Now()

// processorTime is the time since the start: all of it counts.
func processorTime() time.Duration { return time.Since(began) }
