//go:build !linux

package script

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// confine does nothing: such systems do not bound what matters here, and the
// engines' own limits have to do.
func confine() {}

// Confinement returns why children run without a filter of system calls.
func Confinement() error { return errors.New("only Linux has seccomp") }

func self() (string, error) { return os.Executable() }

func startConfined(cmd *exec.Cmd) error { return cmd.Start() }

func attributes() *syscall.SysProcAttr { return nil }

var began = time.Now()

// processorTime is the time since the start: all of it counts.
func processorTime() time.Duration { return time.Since(began) }
