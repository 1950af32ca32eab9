//go:build !linux

package gatewaytest

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
