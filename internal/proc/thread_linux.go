package proc

import (
	"os"
	"runtime"
	"syscall"
)

// noNewPrivileges is PR_SET_NO_NEW_PRIVS of prctl(2).
const noNewPrivileges = 38

// Unprivileged calls f on a new thread that cannot gain privileges, and returns when f
// returns. Processes that f starts inherit this restriction, as do the programs that they
// execute. The thread ends when f returns, so a process whose Pdeathsig is set must end
// before f returns.
func Unprivileged(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		if syscall.Gettid() == os.Getpid() {
			// The main thread cannot end. This goroutine occupies it, so the nested
			// call runs on another thread.
			Unprivileged(f)
			runtime.UnlockOSThread()
		} else {
			// Kernels before 3.5 return an error. f runs without the restriction there.
			_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, noNewPrivileges, 1, 0, 0, 0, 0)
			f()
		}
	}()
	<-done
}
