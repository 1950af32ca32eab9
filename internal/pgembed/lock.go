package pgembed

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// errHeld is the error if another live process has the lock.
var errHeld = errors.New("another process owns the data folder")

// tryLock acquires the lock of a data folder. Its holder owns the PostgreSQL of the folder.
// The kernel releases the lock when the file is closed or the process ends, even by a crash.
// PostgreSQL does not inherit the lock.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errHeld
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// unlock releases the lock of a data folder. Closing the file alone would not release it while a
// process that another goroutine starts has a copy of the descriptor, which it has until it
// executes its program (flock(2)).
func unlock(f *os.File) {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	_ = f.Close()
}
