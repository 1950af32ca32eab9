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
	"syscall"
	"time"
)

func main() {
	bare := flag.String("bare", "", "serve the bare handler on this address (used by the bench itself)")
	sink := flag.String("sink", "", "be a subscriber that counts, at this address (used by the bench itself)")
	attackerOf := flag.Int("attacker", -1, "make the requests of this attack of hostile (used by the bench itself)")
	address := flag.String("send", "", "only send, to a gateway at this address that has the bench's source")
	only := flag.String("only", "", "what to measure: some of "+partNames()+", separated by commas")
	binary := flag.String("eventhook", "bin/eventhook", "the gateway to measure")
	rounds := flag.Int("rounds", 7, "how often each measurement is taken, in turn; the medians count")
	seconds := flag.Duration("for", 2*time.Second, "length of one measurement")
	connections := flag.Int("connections", 128, "connections that send at once")
	events := flag.Int("events", 1_000_000, "events that lists are of, over a hundredth as many sources")
	settled := flag.Int("settled", 1_000_000, "deliveries that have ended, beside which backlog claims others")
	chosenAttacks := flag.String("attacks", "", "the numbers of the attacks that hostile runs, separated by commas; all by default")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	chosen, err := choose(*only)
	switch {
	case err != nil:
	case *bare != "":
		err = serveBare(ctx, *bare)
	case *sink != "":
		err = serveSink(ctx, *sink)
	case *attackerOf >= 0:
		err = serveAttack(ctx, *attackerOf)
	case *address != "":
		var l load
		if l, err = send(ctx, target{address: *address, paths: []string{benchPath}}, *connections, *seconds); err == nil {
			fmt.Printf("%.0f/s, p50 %s, p99 %s\n", l.perSec, l.p50, l.p99)
		}
	default:
		err = (&run{binary: *binary, rounds: *rounds, length: *seconds, connections: *connections, events: *events, settled: *settled, attacks: *chosenAttacks, out: os.Stdout}).all(ctx, chosen)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
