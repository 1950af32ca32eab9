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
	// sweepAge protects new folders that their process has not locked yet.
	sweepAge = time.Minute
)

// fast turns durability off: the data is removed with the process anyway.
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
	// minFreeMemory is the free memory that a test server needs, in bytes.
	minFreeMemory = 4 << 30
)

// fastDir returns the folder for servers without durability: in memory, where a clone takes a
// tenth of the time, if there is enough memory and TMPDIR is not set.
func fastDir() string {
	var st syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || syscall.Statfs(memoryDir, &st) != nil {
		return os.TempDir()
	}
	if uint64(st.Bavail)*uint64(st.Bsize) < minFreeMemory { //nolint:unconvert // not on every platform
		return os.TempDir()
	}
	return memoryDir
}

// startEmbedded starts a server in a new folder in tmp. It returns the server and a function
// that stops it and removes the folder. The server ends with this process. The next process
// removes the folders of processes that died.
func startEmbedded(ctx context.Context, tmp string, settings map[string]string) (*pgembed.Server, func() error, error) {
	return startIn(ctx, tmp, settings, func(string) error { return nil })
}

// startIn is startEmbedded with a function that prepares the new folder.
func startIn(ctx context.Context, tmp string, settings map[string]string, prepare func(dir string) error) (*pgembed.Server, func() error, error) {
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
	// The server may run as another user, who must enter the folder.
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // PostgreSQL's user enters it
		return nil, nil, errors.Join(err, discard())
	}
	if err := prepare(dir); err != nil {
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

// tryLock locks a folder to mark it as used by a live process. It is not the server's own
// lock, which is released while a test has stopped its server.
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

// sweep removes the folders of test processes that panicked or were killed. It ignores
// folders that it cannot remove: they belong to another user or are in use.
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
