// Package proc lists the processes of this machine, and starts processes that cannot gain
// privileges. It reads /proc. On systems without /proc, such as macOS, it runs ps and
// pgrep.
package proc

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// CommandLine returns the command line of a process, its words separated by
// NUL. It is "" if there is no such process or the process is a zombie. Without
// /proc, each space of the command line is replaced by NUL.
func CommandLine(pid int) string {
	if hasProc() {
		return readCommandLine(fmt.Sprintf("/proc/%d/cmdline", pid))
	}
	lines := ps("-p", strconv.Itoa(pid))
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}

// CommandLines returns the command lines of all processes that this process may see, in the
// form of CommandLine. It omits empty ones.
func CommandLines() []string {
	if !hasProc() {
		return ps("-A")
	}
	var lines []string
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, path := range paths {
		if line := readCommandLine(path); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// Children returns the process ids of the direct children of a process.
func Children(pid int) []int {
	var pids []int
	add := func(text string) {
		if n, err := strconv.Atoi(text); err == nil {
			pids = append(pids, n)
		}
	}
	if !hasProc() {
		out, _ := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output() // an error: no children
		for _, field := range strings.Fields(string(out)) {
			add(field)
		}
		return pids
	}
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		stat, _ := os.ReadFile(path) // the process may have ended
		if parentOf(stat) == strconv.Itoa(pid) {
			add(filepath.Base(filepath.Dir(path)))
		}
	}
	return pids
}

// parentOf returns the parent in a stat file of proc(5). The name before it is
// in parentheses and may contain blanks and parentheses itself.
func parentOf(stat []byte) string {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return ""
	}
	return fields[1]
}

func hasProc() bool {
	_, err := os.Stat("/proc/self/cmdline")
	return err == nil
}

func readCommandLine(path string) string {
	line, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(bytes.TrimRight(line, "\x00"))
}

func ps(selection ...string) []string {
	out, err := exec.Command("ps", append(selection, "-o", "command=")...).Output()
	if err != nil {
		return nil
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, strings.ReplaceAll(line, " ", "\x00"))
		}
	}
	return lines
}
