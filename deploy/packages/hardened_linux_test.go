package packages_test

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

const installedUnit = "/usr/lib/systemd/system/eventhook.service"

// A copy of the test binary with the name "hardened" runs a command under the restrictions of the
// installed unit, or of the unit that the variable HARDENED_UNIT names, that do not need systemd: NoNewPrivileges, MemoryDenyWriteExecute,
// RestrictAddressFamilies and SystemCallFilter.
var _ = func() bool {
	if filepath.Base(os.Args[0]) == "hardened" {
		fmt.Fprintln(os.Stderr, "hardened:", runHardened(os.Args[1:]))
		os.Exit(1)
	}
	return false
}()

// runHardened replaces this process, or returns why it cannot.
func runHardened(command []string) error {
	raw, err := os.ReadFile(cmp.Or(os.Getenv("HARDENED_UNIT"), installedUnit))
	if err != nil {
		return err
	}
	policy, err := policyOf(string(raw))
	if err != nil {
		return err
	}
	if strings.Contains(string(raw), "\nMemoryDenyWriteExecute=yes\n") {
		_ = unix.Prctl(unix.PR_SET_MDWE, unix.PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) // kernels before 6.3 refuse it
	}
	if err := seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Flag: seccomp.FilterFlagTSync, Policy: policy}); err != nil {
		return err
	}
	return syscall.Exec(command[0], command, os.Environ())
}

// policyOf returns the filter of a unit: every call of SystemCallFilter, and sockets of
// RestrictAddressFamilies only.
func policyOf(unit string) (policy seccomp.Policy, err error) {
	groups, err := callGroups()
	if err != nil {
		return policy, err
	}
	calls := map[string]bool{"execve": true, "exit": true, "exit_group": true, "rt_sigreturn": true}
	families := map[string]uint64{"AF_UNIX": unix.AF_UNIX, "AF_INET": unix.AF_INET, "AF_INET6": unix.AF_INET6}
	allow := seccomp.SyscallGroup{Action: seccomp.ActionAllow}
	for line := range strings.Lines(unit) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "SystemCallFilter":
			names, isDenied := strings.CutPrefix(value, "~")
			for name := range strings.FieldsSeq(names) {
				groups.set(calls, name, !isDenied)
			}
		case "RestrictAddressFamilies":
			for name := range strings.FieldsSeq(value) {
				allow.NamesWithCondtions = append(allow.NamesWithCondtions, seccomp.NameWithConditions{Name: "socket",
					Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.Equal, Value: families[name]}}})
			}
		}
	}
	machine, err := arch.GetInfo("")
	if err != nil {
		return policy, err
	}
	delete(calls, "socket")
	for name := range calls {
		if _, isKnown := machine.SyscallNames[name]; isKnown && calls[name] {
			allow.Names = append(allow.Names, name)
		}
	}
	return seccomp.Policy{DefaultAction: seccomp.ActionErrno, Syscalls: []seccomp.SyscallGroup{allow}}, nil
}

// groups are the groups of system calls of systemd, such as @system-service.
type groups map[string][]string

func callGroups() (groups, error) {
	out, err := exec.Command("systemd-analyze", "--no-pager", "syscall-filter").Output()
	if err != nil {
		return nil, fmt.Errorf("systemd-analyze syscall-filter: %w", err)
	}
	list, group := groups{}, ""
	for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); {
		text := strings.TrimSpace(lines.Text())
		switch {
		case text == "" || strings.HasPrefix(text, "#"):
		case strings.HasPrefix(lines.Text(), "@"):
			group = text
		case group != "":
			list[group] = append(list[group], text)
		}
	}
	return list, nil
}

// set sets a call, or each call of a group.
func (g groups) set(calls map[string]bool, name string, isAllowed bool) {
	if !strings.HasPrefix(name, "@") {
		calls[name] = isAllowed
		return
	}
	for _, inner := range g[name] {
		g.set(calls, inner, isAllowed)
	}
}
