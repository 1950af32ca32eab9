package pgembed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/eventhook/eventhook/internal/proc"
)

// postmaster is what a running postmaster writes into its pid file.
type postmaster struct {
	pid     int
	sockets string
}

// readPostmaster reads the pid file: the pid in line 1, the directory of the
// socket in line 5, which comes a moment later.
func readPostmaster(cluster string) (postmaster, error) {
	b, err := os.ReadFile(pidFile(cluster))
	if err != nil {
		return postmaster{}, err
	}
	lines := strings.Split(string(b), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 0 {
		return postmaster{}, fmt.Errorf("%s names no process", pidFile(cluster))
	}
	if len(lines) < 6 {
		return postmaster{pid: pid}, fmt.Errorf("%s is not complete", pidFile(cluster))
	}
	return postmaster{pid: pid, sockets: lines[4]}, nil
}

func pidFile(cluster string) string { return filepath.Join(cluster, "postmaster.pid") }

// livePostmaster returns the postmaster that runs on the cluster, if any.
func livePostmaster(cluster string) (postmaster, bool) {
	pm, err := readPostmaster(cluster)
	return pm, err == nil && isPostmaster(pm.pid, cluster)
}

// forgetForeign removes the pid files of a postmaster that is gone where
// PostgreSQL would not dare to: the pid is now another program's, as after a
// reboot or in a new container, or a crash left the file empty. Every other
// stale file is left to PostgreSQL, which knows best.
func forgetForeign(p place) error {
	pm, err := readPostmaster(p.cluster)
	if errors.Is(err, fs.ErrNotExist) || isPostmaster(pm.pid, p.cluster) {
		return nil
	}
	if pm.pid != 0 && errors.Is(syscall.Kill(pm.pid, 0), syscall.ESRCH) {
		return nil
	}
	socketLock := filepath.Join(p.sockets, ".s.PGSQL."+port+".lock")
	for _, path := range []string{pidFile(p.cluster), socketLock} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a stale lock: %w", err)
		}
	}
	return nil
}

// isPostmaster reports whether pid is a live postmaster of the cluster. Its
// children show other command lines, and a zombie none.
func isPostmaster(pid int, cluster string) bool {
	return pid > 0 && strings.Contains(proc.CommandLine(pid)+"\x00", "\x00-D\x00"+cluster+"\x00")
}
