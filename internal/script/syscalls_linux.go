package script

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// allowed lists the system calls of a child: reading and writing open files, memory, time, signals
// and its own threads. Frequent calls come first, since the kernel compares in this order. Names
// that an architecture does not have are skipped.
var allowed = []string{
	"futex", "read", "write", "madvise", "munmap", "nanosleep", "sched_yield", "clock_gettime",
	"epoll_pwait", "epoll_wait", "epoll_ctl", "epoll_create1", "eventfd2", "close", "fcntl",
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigreturn", "sigaltstack", "restart_syscall",
	"gettid", "getpid", "getrusage", "getrandom", "gettimeofday", "clock_nanosleep", "mincore", "mremap", "brk",
	"sched_getaffinity", "set_robust_list", "rseq", "membarrier", "exit", "exit_group",
}

// allowedIf returns the system calls that are allowed with certain arguments only. A child can create
// threads but not processes, signal only itself, and allocate no executable memory.
func allowedIf() []seccomp.NameWithConditions {
	noCode := seccomp.ArgumentConditions{{Argument: 2, Operation: seccomp.BitsNotSet, Value: unix.PROT_EXEC}}
	return []seccomp.NameWithConditions{
		{Name: "mmap", Conditions: noCode},
		{Name: "mmap2", Conditions: noCode},
		{Name: "mprotect", Conditions: noCode},
		{Name: "clone", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.BitsSet, Value: unix.CLONE_THREAD}}},
		{Name: "tgkill", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.Equal, Value: uint64(os.Getpid())}}},
		{Name: "prctl", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.Equal, Value: unix.PR_SET_VMA}}},
	}
}

// filterSyscalls makes every other system call fail with EPERM, in all current and future threads.
// So a child can open no file or socket, and start no program.
func filterSyscalls() error {
	policy, err := newPolicy()
	if err != nil {
		return err
	}
	return seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Flag: seccomp.FilterFlagTSync, Policy: policy})
}

func newPolicy() (seccomp.Policy, error) {
	machine, err := arch.GetInfo("")
	if err != nil {
		return seccomp.Policy{}, err
	}
	group := seccomp.SyscallGroup{Action: seccomp.ActionAllow}
	for _, name := range allowed {
		if _, known := machine.SyscallNames[name]; known {
			group.Names = append(group.Names, name)
		}
	}
	for _, call := range allowedIf() {
		if _, known := machine.SyscallNames[call.Name]; known {
			group.NamesWithCondtions = append(group.NamesWithCondtions, call)
		}
	}
	if len(group.Names) == 0 {
		return seccomp.Policy{}, fmt.Errorf("the system calls of %s are unknown", machine.Name)
	}
	policy := seccomp.Policy{DefaultAction: seccomp.ActionErrno, Syscalls: []seccomp.SyscallGroup{group}}
	if _, known := machine.SyscallNames["clone3"]; known {
		// The filter cannot read the arguments of clone3. If clone3 fails with ENOSYS, C libraries use
		// clone.
		absent := seccomp.SyscallGroup{Names: []string{"clone3"}, Action: seccomp.ActionErrno | seccomp.Action(syscall.ENOSYS)}
		policy.Syscalls = append(policy.Syscalls, absent)
	}
	_, err = policy.Assemble()
	return policy, err
}

// Confinement returns why children run without a system call filter, or nil if they run with one.
// It queries the kernel and changes nothing.
func Confinement() error {
	if _, err := newPolicy(); err != nil {
		return fmt.Errorf("filter of system calls: %w", err)
	}
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, fault := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action))) //nolint:gosec // seccomp(2) wants it
	if fault != 0 {
		return errors.New("the kernel or the container refuses seccomp: " + fault.Error())
	}
	return nil
}
