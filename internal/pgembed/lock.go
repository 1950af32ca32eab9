package pgembed

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// errHeld says that another live process has the lock.
var errHeld = errors.New("another process owns the data folder")

// tryLock takes the lock that says whose PostgreSQL it is. The system frees it
// when the file is closed or the process ends, however it ends; PostgreSQL
// itself does not inherit it.
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
