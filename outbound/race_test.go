//go:build race

package outbound_test

import "runtime"

// The race detector of Go 1.26 can end the test binary with "ThreadSanitizer: CHECK failed"
// (golang/go#78156). All timers of a synctest bubble share one race context, and two
// processors use it at once when goroutines receive from expired timers. The detector crashes
// only if there are more than about 255 goroutines, as in some tests of this package. With one
// processor it does not crash, and it still finds races: it needs no parallel execution.
func init() { runtime.GOMAXPROCS(1) }
