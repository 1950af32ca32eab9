package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/eventhook/eventhook/internal/pgembed"
)

const (
	dirPattern = "eventhook-test-*"
	// sweepAge spares a folder whose process has yet to lock it.
	sweepAge = time.Minute
)

// fast gives durability away: the data is gone with the process anyway.
var fast = map[string]string{
	"fsync":              "off",
	"full_page_writes":   "off",
	"synchronous_commit": "off",
	"shared_buffers":     "64MB",
	"max_connections":    "200",
	"max_wal_size":       "256MB",
}

const (
	memoryDir = "/dev/shm"
	// memoryRoom is the free memory that a test server may hope for.
	memoryRoom = 4 << 30
)

// fastDir is where a server without durability lives: in memory, where a clone
// takes a tenth of the time, if there is enough and TMPDIR says nothing else.
func fastDir() string {
	var st syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || syscall.Statfs(memoryDir, &st) != nil {
		return os.TempDir()
	}
	if uint64(st.Bavail)*uint64(st.Bsize) < memoryRoom { //nolint:unconvert // not on every platform
		return os.TempDir()
	}
	return memoryDir
}

// startEmbedded starts a server in a new folder in tmp and returns how to end
// and remove it. The server ends with this process; a folder that a dead
// process left is removed by the next one.
func startEmbedded(ctx context.Context, tmp string, settings map[string]string) (*pgembed.Server, func() error, error) {
	if _, err := pgembed.FindBinaries(); err != nil {
		return nil, nil, err
	}
	sweep(tmp)
	dir, err := os.MkdirTemp(tmp, dirPattern)
	if err != nil {
		return nil, nil, err
	}
	alive, err := tryLock(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	discard := func() error {
		defer func() { _ = alive.Close() }()
		return pgembed.Discard(dir)
	}
	// The server's user, who is not root, has to get in.
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // PostgreSQL's user passes it
		return nil, nil, errors.Join(err, discard())
	}
	s, err := pgembed.Start(ctx, pgembed.Options{DataDir: dir, Settings: settings, DieWithParent: true})
	if err != nil {
		return nil, nil, errors.Join(err, discard())
	}
	end := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		return errors.Join(s.Stop(ctx), discard())
	}
	return s, end, nil
}

// tryLock marks the folder as one of a live process. It is not the server's
// own lock, which a test gives up while its server is stopped.
func tryLock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "alive"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// sweep removes what test processes left that panicked or were killed. What
// cannot be removed is another's, or busy; neither is our concern.
func sweep(tmp string) {
	old, _ := filepath.Glob(filepath.Join(tmp, dirPattern))
	for _, dir := range old {
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < sweepAge {
			continue
		}
		if alive, err := tryLock(dir); err == nil {
			_ = pgembed.Discard(dir)
			_ = alive.Close()
		}
	}
}
