// Command bench measures a gateway process under load and compares the results with
// limits. Most results are ratios of two measurements of the same run on the same
// machine. README.md describes the parts. The command sends to loopback only and ends by
// itself. A missed limit is printed, but is not an error.
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
	sink := flag.String("sink", "", "receive deliveries on this address and count them (used by the bench itself)")
	nats := flag.String("nats", "", "run three NATS servers with data in this folder (used by the bench itself)")
	syncs := flag.Bool("nats-sync", false, "with -nats: write each message to the disk before the acknowledgement")
	attackerOf := flag.Int("attacker", -1, "send the requests of this attack of the part hostile (used by the bench itself)")
	address := flag.String("send", "", "only send requests, to a gateway at this address with the bench's source")
	only := flag.String("only", "", "parts to measure, separated by commas: "+partNames()+"; all by default")
	binary := flag.String("eventhook", "bin/eventhook", "binary of the gateway to measure")
	rounds := flag.Int("rounds", 7, "rounds of measurements; the result is the median")
	seconds := flag.Duration("for", 2*time.Second, "duration of one measurement")
	connections := flag.Int("connections", 128, "concurrent connections")
	chosenAttacks := flag.String("attacks", "", "numbers of the attacks of the part hostile, separated by commas; all by default")
	var soaking soakFlags
	flag.DurationVar(&soaking.length, "soak", 0, "run gateways under load and with faults for this time, and count every event at the end")
	flag.IntVar(&soaking.rate, "rate", 100, "of a soak: webhooks per second")
	flag.IntVar(&soaking.settled, "settled", 0, "of a soak: settled events in the database before the start")
	flag.StringVar(&soaking.report, "report", "bin/soak", "of a soak: folder of the report")
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
	case *nats != "":
		serveNATS(ctx, *nats, *syncs)
	case *attackerOf >= 0:
		err = serveAttack(ctx, *attackerOf)
	case soaking.length > 0:
		err = runSoak(ctx, *binary, soaking)
	case *address != "":
		var l loadResult
		if l, err = send(ctx, requestSpec{address: *address, paths: []string{benchPath}}, *connections, *seconds); err == nil {
			fmt.Printf("%.0f/s, p50 %s, p99 %s\n", l.perSec, l.p50, l.p99)
		}
	default:
		err = (&run{binary: *binary, rounds: *rounds, length: *seconds, connections: *connections, attacks: *chosenAttacks, out: os.Stdout}).all(ctx, chosen)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
