package proc

import (
	"os"
	"runtime"
	"syscall"
)

// noNewPrivileges is PR_SET_NO_NEW_PRIVS of prctl(2).
const noNewPrivileges = 38

// Unprivileged calls f on a thread of its own, which can gain no privileges,
// and returns when f returns. A process that f starts inherits that: neither it
// nor a program that it executes gets more rights than it began with. The
// thread ends with f, so a process whose Pdeathsig is set must end before f.
func Unprivileged(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // without an unlock: the thread ends with the goroutine
		if syscall.Gettid() == os.Getpid() {
			// The main thread cannot end. This goroutine holds it, so the next one runs on another.
			Unprivileged(f)
			runtime.UnlockOSThread()
		} else {
			// Kernels before 3.5 do not know it; f runs there as well.
			_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, noNewPrivileges, 1, 0, 0, 0, 0)
			f()
		}
	}()
	<-done
}
