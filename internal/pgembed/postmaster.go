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

// postmaster is the content of the pid file of a running postmaster.
type postmaster struct {
	pid     int
	sockets string
}

// readPostmaster reads the pid file. Line 1 has the pid. Line 5 has the directory of the
// socket; PostgreSQL writes it a moment later.
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

// removeForeignPIDFile removes the pid file of a postmaster that has ended, in the cases in
// which PostgreSQL would not: the pid belongs to another program now, for example after a
// reboot or in a new container, or the file is empty after a crash. PostgreSQL itself removes
// every other stale pid file.
func removeForeignPIDFile(p place) error {
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

// isPostmaster reports whether pid is a live postmaster of the cluster. Its children have
// other command lines, and a zombie has none.
func isPostmaster(pid int, cluster string) bool {
	return pid > 0 && strings.Contains(proc.CommandLine(pid)+"\x00", "\x00-D\x00"+cluster+"\x00")
}
