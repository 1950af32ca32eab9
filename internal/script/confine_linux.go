package script

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/eventhook/eventhook/internal/proc"
)

// dataLimit bounds what a child may have in memory, in bytes: an engine's
// limit, an input and a result several times over, and what the runtime itself
// takes. Beyond it the child ends.
const dataLimit = 320 << 20

// fileLimit bounds how many files a child may have open: its standard ones,
// and what the runtime waits with.
const fileLimit = 16

// confine bounds the memory of this process and the files it has open, keeps
// it from writing any, closes what our parent was given by its own, and filters
// system calls. There is no bound of processes: the runtime must be able to
// start threads, which count as such. A kernel that refuses the filter leaves
// the child with the rest; Confinement tells the gateway.
func confine() {
	yield()
	closeInherited()
	limits := map[int]uint64{syscall.RLIMIT_DATA: dataLimit, syscall.RLIMIT_CORE: 0, syscall.RLIMIT_FSIZE: 0, syscall.RLIMIT_NOFILE: fileLimit}
	if racing {
		delete(limits, syscall.RLIMIT_DATA)
	}
	for resource, limit := range limits {
		_ = syscall.Setrlimit(resource, &syscall.Rlimit{Cur: limit, Max: limit})
	}
	_ = filterSyscalls()
}

// closeInherited closes the files that were open when this program began. They
// are those that are not closed at the start of another; what the runtime has
// opened since then, and needs, is.
func closeInherited() {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, entry := range list {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= syscall.Stderr {
			continue
		}
		flags, _, fault := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
		if fault == 0 && flags&syscall.FD_CLOEXEC == 0 {
			_ = syscall.Close(fd)
		}
	}
}

// niceness gives a child a tenth of a processor that others want, too (sched(7)).
const niceness = 10

// yield has everybody else on the machine served first, the database above all.
// The threads of a child begin with the priority of the one that starts it; but
// where sessions are scheduled as groups (sched(7), autogroup), that counts
// within the session only, and the session has a priority of its own.
func yield() { _ = os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(niceness)), 0) }

// startConfined starts a child that can gain no privileges and has a low
// priority. It gets both from the thread that starts it.
func startConfined(cmd *exec.Cmd) (err error) {
	proc.Unprivileged(func() {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), niceness)
		err = cmd.Start()
	})
	return err
}

// self is the program that is running, even if another lies at its place now.
func self() (string, error) { return "/proc/self/exe", nil }

// attributes give a child a session of its own, which keeps a signal to our
// terminal from ending children that a drain still needs, and lets them yield.
// They end with us, when their input does.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// processorTime is how long this process has run on processors.
func processorTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
