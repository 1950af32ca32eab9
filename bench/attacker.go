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

// attacker is a process that makes the requests of one attack. It has a low
// priority, so that its own work delays the gateway and the probes less.
type attacker struct{ *process }

// attackerAt is the line of an attacker that has created its resources.
const attackerAt = "armed for attack "

// The variables that tell an attacker its gateway.
const (
	attackerAddress = "BENCH_ATTACK_ADDRESS"
	attackerKey     = "BENCH_ATTACK_KEY"
	attackerDir     = "BENCH_ATTACK_DIR"
)

// startAttacker starts the attacker of an attack, counted from 0, and waits until
// it has created its resources. It makes requests from begin until stop.
func (h *hostile) startAttacker(ctx context.Context, n int) (attacker, error) {
	env := []string{attackerAddress + "=" + h.to.address, attackerKey + "=" + h.key, attackerDir + "=" + h.dir}
	p, _, err := start(ctx, attackerAt, "nice", env, "-n", "10", os.Args[0], "-attacker", strconv.Itoa(n))
	return attacker{p}, err
}

func (a attacker) begin() error { return a.cmd.Process.Signal(syscall.SIGUSR1) }

// serveAttack is an attacker: it creates its resources, waits for SIGUSR1, and
// makes requests until ctx ends.
func serveAttack(ctx context.Context, n int) error {
	if n < 0 || n >= len(attacks) || attacks[n].arm == nil {
		return fmt.Errorf("no attack has the number %d", n)
	}
	dir := os.Getenv(attackerDir)
	conn, err := pgx.Connect(ctx, "host="+filepath.Join(dir, "postgres")+" user=eventhook dbname=eventhook sslmode=disable")
	if err != nil {
		return err
	}
	h := &hostile{
		publisher: &publisher{gateway: &gateway{dir: dir, to: target{address: os.Getenv(attackerAddress)}, stats: &stats{conn}}},
		key:       os.Getenv(attackerKey), harmless: clientThrough(&net.Dialer{}), harmful: clientThrough(attackerDialer),
	}
	begin := make(chan os.Signal, 1)
	signal.Notify(begin, syscall.SIGUSR1)
	harm, err := attacks[n].arm(h, ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%s%d\n", attackerAt, n)
	select {
	case <-begin:
		harm(ctx)
	case <-ctx.Done():
	}
	return nil
}
