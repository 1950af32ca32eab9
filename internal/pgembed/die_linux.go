package pgembed

import "syscall"

// dieWithParent has the system send the postmaster an immediate shutdown when
// the thread that started it ends.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGQUIT }
