// Command bench measures the gateway against bare limits, as ratios within one
// run on one machine; README.md says what and how. It sends to loopback only,
// and stops by itself.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	bare := flag.String("bare", "", "serve the bare handler on this address (used by the bench itself)")
	only := flag.String("send", "", "only send, to a gateway at this address that has the bench's source")
	binary := flag.String("eventhook", "bin/eventhook", "the gateway to measure")
	rounds := flag.Int("rounds", 7, "how often each measurement is taken, in turn; the medians count")
	seconds := flag.Duration("for", 2*time.Second, "length of one measurement")
	connections := flag.Int("connections", 128, "connections that send at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case *bare != "":
		err = serveBare(ctx, *bare)
	case *only != "":
		var l load
		if l, err = send(ctx, *only, *connections, *seconds); err == nil {
			fmt.Printf("%.0f/s, p50 %s, p99 %s\n", l.perSec, l.p50, l.p99)
		}
	default:
		err = (&run{binary: *binary, rounds: *rounds, length: *seconds, connections: *connections, out: os.Stdout}).all(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
