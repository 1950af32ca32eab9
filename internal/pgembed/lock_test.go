package pgembed

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A process that is being started has copies of all descriptors for a moment.
func TestAnUnlockedFolderCanBeLockedAlthoughADescriptorWasCopied(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := tryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	duplicate, err := syscall.Dup(int(held.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(duplicate) }()
	unlock(held)
	again, err := tryLock(path)
	if err != nil {
		t.Fatalf("lock it again: %v", err)
	}
	unlock(again)
}
