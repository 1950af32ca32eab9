//go:build !linux

package pgembed

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}
