//go:build !linux

package servertest

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
