package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// signalContext returns a context that ends at the first SIGINT or SIGTERM. A second signal ends
// the process at once, with ExitFailed and a line on stderr. stop must be called.
func signalContext(stderr io.Writer) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals, done := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for n := 1; ; n++ {
			select {
			case <-done:
				return
			case s := <-signals:
				if n > 1 {
					_, _ = fmt.Fprintf(stderr, "eventhook: a second signal (%s): ending at once, without finishing the work in progress\n", s)
					os.Exit(ExitFailed)
				}
				cancel()
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel()
	}
}
