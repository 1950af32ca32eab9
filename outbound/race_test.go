//go:build race

package outbound_test

import "runtime"

// The race detector of Go 1.26 can end the test binary with "ThreadSanitizer: CHECK failed"
// (golang/go#78156): all timers of a synctest bubble share one race context, and two
// processors use it at once when goroutines of the bubble receive from expired timers. It
// happens with more goroutines than the detector has slots (255), so with the tests of this
// package. One processor avoids it; the detector needs no parallel execution to find a race.
func init() { runtime.GOMAXPROCS(1) }
