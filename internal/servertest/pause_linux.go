package servertest

import "golang.org/x/sys/unix"

// awaitStop returns when all threads of a child have stopped: the signal alone stops them a moment
// later. It does not take the child's exit status.
func awaitStop(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED, nil) == unix.EINTR {
	}
}
