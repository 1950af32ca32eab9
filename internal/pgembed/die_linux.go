package pgembed

import "syscall"

// dieWithParent makes the kernel send SIGQUIT, an immediate shutdown, to the postmaster when
// the thread that started it ends.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGQUIT }
