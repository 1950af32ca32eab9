package clitest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// WantOwnerOnly fails the test unless a file has the mode 0600.
func WantOwnerOnly(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("%s has the mode %o, want 600", filepath.Base(path), mode)
	}
}

// WantFiles fails the test unless a folder contains exactly the named files.
func WantFiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if fmt.Sprint(got) != fmt.Sprint(names) {
		t.Errorf("the folder contains %v, want %v", got, names)
	}
}
