package outbound

// signal wakes the goroutine that waits for it. Several calls of set before the
// goroutine wakes count as one.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) set() {
	select {
	case s <- struct{}{}:
	default:
	}
}
