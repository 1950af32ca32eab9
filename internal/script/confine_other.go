//go:build !linux

package script

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// confine does nothing, because other systems lack the necessary limits. Only the limits of the
// engines apply.
func confine() {}

// Confinement returns why children run without a filter of system calls.
func Confinement() error { return errors.New("only Linux has seccomp") }

func self() (string, error) { return os.Executable() }

func startConfined(cmd *exec.Cmd, _ priority) error { return cmd.Start() }

func attributes() *syscall.SysProcAttr { return nil }

var began = time.Now()

// processorTime is the wall time since the start, an upper bound of the processor time.
func processorTime() time.Duration { return time.Since(began) }

// processorTimeOf is the wall time since the start, as processorTime.
func processorTimeOf(int) time.Duration { return processorTime() }
