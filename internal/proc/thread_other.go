//go:build !linux

package proc

// Unprivileged calls f. Systems other than Linux have no counterpart of
// no_new_privs.
func Unprivileged(f func()) { f() }
