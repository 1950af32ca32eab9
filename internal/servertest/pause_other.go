//go:build !linux

package servertest

// awaitStop does nothing: threads may answer for a moment after a signal.
func awaitStop(int) {}
