package script

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/eventhook/eventhook/internal/proc"
	"golang.org/x/sys/unix"
)

// dataLimit bounds the memory of a child in bytes: an engine's limit, several copies of an input
// and a result, and the Go runtime. A child that exceeds it ends.
const dataLimit = 320 << 20

// fileLimit bounds the open files of a child: standard input and output and those of the runtime's
// poller.
const fileLimit = 16

// confine limits this process's memory and open files, prevents writes to files, closes inherited
// files, and filters system calls. It sets no limit of processes, because threads count as
// processes and the runtime must start threads. If the kernel refuses the filter, the child runs
// with the other limits; Confinement reports this to the gateway.
func confine() {
	if os.Getenv(priorityVariable) == "" {
		lowerPriority()
	}
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

// closeInherited closes files inherited from the parent. They are the files without FD_CLOEXEC;
// files that the runtime opened have that flag.
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

// niceness is a nice value with which a child gets about a tenth of a contended processor (sched(7)).
const niceness = 10

// lowerPriority lowers the priority of the child's session, in favor of other processes such as the
// database. The threads of a child inherit the nice value of the thread that starts it, but with
// autogroup scheduling (sched(7)) that value counts only within the session, and the session has
// its own.
func lowerPriority() { _ = os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(niceness)), 0) }

// startConfined starts a child with a priority that cannot gain privileges. The child inherits
// both from the thread that starts it.
func startConfined(cmd *exec.Cmd, of priority) (err error) {
	proc.Unprivileged(func() {
		if of == lowPriority {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), niceness)
		}
		err = cmd.Start()
	})
	return err
}

// self returns the path of the running program, even if the file was replaced.
func self() (string, error) { return "/proc/self/exe", nil }

// attributes puts a child into a session of its own. So a signal from the terminal does not end
// children that are needed while the gateway drains, and lowerPriority applies to the children only.
// Children end when their input ends.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// processorTime is the processor time that this process has used.
func processorTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// processorTimeOf is the processor time that a process has used, 0 if it has ended.
func processorTimeOf(pid int) time.Duration {
	const ofProcess = 2 // CPUCLOCK_SCHED: a clock id is the complement of the pid and three bits of the kind (linux/posix-timers.h)
	var used unix.Timespec
	clock := ^pid<<3 | ofProcess //nolint:mnd // see ofProcess
	if unix.ClockGettime(int32(clock), &used) != nil {
		return 0
	}
	return time.Duration(used.Nano())
}
