package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ChildrenCPU returns the processor time of the running children of a process in microseconds.
// PostgreSQL's work is done by the children of its postmaster.
func ChildrenCPU(pid int) (sum float64) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		child, _ := strconv.Atoi(filepath.Base(dir))
		if s := readStat(child); s.parent == pid {
			sum += s.cpu
		}
	}
	return sum
}

// TreeCPU returns the processor time of a process, of its running children, and of its children that
// have ended, in microseconds.
func TreeCPU(pid int) float64 {
	s := readStat(pid)
	return s.cpu + s.reaped + ChildrenCPU(pid)
}

// stat is the state of a process in Linux. It is zero on other systems.
type stat struct {
	parent int
	cpu    float64 // microseconds
	reaped float64 // of children that have ended
}

func readStat(pid int) (s stat) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s // not on Linux, or the process has ended
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	const parent, utime, stime, cutime, cstime, tick = 1, 11, 12, 13, 14, 10_000
	s.parent, _ = strconv.Atoi(fields[parent])
	sum := func(a, b int) float64 {
		x, _ := strconv.ParseFloat(fields[a], 64)
		y, _ := strconv.ParseFloat(fields[b], 64)
		return (x + y) * tick
	}
	s.cpu, s.reaped = sum(utime, stime), sum(cutime, cstime)
	return s
}

// residentBytes returns VmRSS of a process status of Linux.
func residentBytes(status string) (bytes float64, err error) {
	const name, unit, kilo = "\nVmRSS:", "kB", 1 << 10
	_, rest, found := strings.Cut(status, name)
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(line, unit)), 64)
	if !found || err != nil {
		return 0, fmt.Errorf("memory: %q is not a number of kB", line)
	}
	return n * kilo, nil
}
