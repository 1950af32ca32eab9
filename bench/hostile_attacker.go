package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// attacker is a process that sends the requests of one attack. It has a low priority,
// so that its own work delays the gateway and the probes less.
type attacker struct{ *process }

// attackerReady is printed by an attacker that has created its resources.
const attackerReady = "ready for attack "

// Environment variables with the gateway of an attacker.
const (
	attackerAddress = "BENCH_ATTACK_ADDRESS"
	attackerKey     = "BENCH_ATTACK_KEY"
	attackerDir     = "BENCH_ATTACK_DIR"
)

// startAttacker starts the attacker of an attack, counted from 0, and waits until it
// has created its resources. The attacker sends requests from begin until stop.
func (h *hostile) startAttacker(ctx context.Context, n int) (attacker, error) {
	env := []string{attackerAddress + "=" + h.to.address, attackerKey + "=" + h.key, attackerDir + "=" + h.dir}
	p, _, err := start(ctx, attackerReady, "nice", env, "-n", "10", os.Args[0], "-attacker", strconv.Itoa(n))
	return attacker{p}, err
}

func (a attacker) begin() error { return a.Signal(syscall.SIGUSR1) }

// serveAttack is the main function of an attacker. It creates its resources, waits for
// SIGUSR1, and sends requests until ctx ends.
func serveAttack(ctx context.Context, n int) error {
	if n < 0 || n >= len(attacks) || attacks[n].start == nil {
		return fmt.Errorf("no attack has the number %d", n)
	}
	dir := os.Getenv(attackerDir)
	conn, err := pgx.Connect(ctx, "host="+filepath.Join(dir, "postgres")+" user=eventhook dbname=eventhook sslmode=disable")
	if err != nil {
		return err
	}
	h := &hostile{
		publisher: &publisher{gateway: &gateway{dir: dir, to: requestSpec{address: os.Getenv(attackerAddress)}, stats: &stats{conn}}},
		key:       os.Getenv(attackerKey), tenantClient: clientThrough(&net.Dialer{}), attackClient: clientThrough(attackerDialer),
	}
	begin := make(chan os.Signal, 1)
	signal.Notify(begin, syscall.SIGUSR1)
	sendRequests, err := attacks[n].start(h, ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%s%d\n", attackerReady, n)
	select {
	case <-begin:
		sendRequests(ctx)
	case <-ctx.Done():
	}
	return nil
}
