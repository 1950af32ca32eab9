package script

import "syscall"

// dataLimit bounds what a child may have in memory, in bytes: an engine's
// limit, an input and a result several times over, and what the runtime itself
// takes. Beyond it the child ends.
const dataLimit = 320 << 20

// confine bounds the memory of this process, and keeps it from starting
// others' files and from writing any.
func confine() {
	limits := map[int]uint64{syscall.RLIMIT_DATA: dataLimit, syscall.RLIMIT_CORE: 0, syscall.RLIMIT_FSIZE: 0}
	if racing {
		delete(limits, syscall.RLIMIT_DATA)
	}
	for resource, limit := range limits {
		_ = syscall.Setrlimit(resource, &syscall.Rlimit{Cur: limit, Max: limit})
	}
}

// self is the program that is running, even if another lies at its place now.
func self() (string, error) { return "/proc/self/exe", nil }

// attributes keep a signal to our terminal from ending children that a drain
// still needs. They end with us, when their input does.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
