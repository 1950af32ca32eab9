package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// accepted is what one round gave.
type accepted struct {
	bare          load
	accept, tasks measured
}

// accept holds accepting, alone and with routing, against a handler that does
// nothing else than to verify.
func (r *run) accept(ctx context.Context) error {
	r.print("accept: %d connections, 1 KB bodies, HMAC-SHA256, deduplicated; %d rounds of %s each\n", r.connections, r.rounds, r.length)
	bare, bareAddress, err := start(ctx, "bare handler at ", os.Args[0], nil, "-bare", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer bare.stop()
	accepting, err := r.gateway(ctx, "accept", acceptsOnly)
	if err != nil {
		return err
	}
	defer accepting.stop()
	routing, err := r.gateway(ctx, "tasks")
	if err != nil {
		return err
	}
	defer routing.stop()
	var rounds []accepted
	for round := range r.rounds + 1 { // the first warms up
		var one accepted
		if one.bare, err = send(ctx, target{address: bareAddress, paths: []string{benchPath}}, r.connections, r.length); err != nil {
			return fmt.Errorf("bare: %w", err)
		}
		if one.accept, err = accepting.measure(ctx, r, false); err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		if one.tasks, err = routing.measure(ctx, r, true); err != nil {
			return fmt.Errorf("accept to task: %w", err)
		}
		if round > 0 {
			rounds = append(rounds, one)
			r.print("  bare %6.0f/s   accepted %6.0f/s (%.2f)   accept to task %6.0f/s (%.2f)\n", one.bare.perSec,
				one.accept.perSec, one.accept.perSec/one.bare.perSec, one.tasks.perSec, one.tasks.perSec/one.bare.perSec)
		}
	}
	r.reportAccepted(rounds)
	return nil
}

// leastAccepted and leastTasks are the limits of the rates of accepting, alone
// and with routing to a task, over that of the bare handler.
const leastAccepted, leastTasks = 0.40, 0.35

// acceptsOnly makes a gateway leave its events to others.
const acceptsOnly = "EVENTHOOK_ROUTE_WORKERS=0"

func (r *run) reportAccepted(rounds []accepted) {
	r.reportHead()
	r.print("%-38s", "bare handler, no database")
	r.reportLoad(medianLoad(rounds, func(a accepted) load { return a.bare }))
	r.print("\n")
	for _, row := range []struct {
		name string
		get  func(accepted) measured
	}{
		{"accepted, committed before the 200", func(a accepted) measured { return a.accept }},
		{"the same, and routed to a task", func(a accepted) measured { return a.tasks }},
	} {
		r.print("%-38s", row.name)
		r.reportMeasured(medianMeasured(rounds, row.get))
	}
	accepting := medianOf(rounds, func(a accepted) float64 { return a.accept.perSec / a.bare.perSec })
	routing := medianOf(rounds, func(a accepted) float64 { return a.tasks.perSec / a.bare.perSec })
	r.ratios = append(r.ratios,
		ratio{"accepted / bare", accepting, leastAccepted, false},
		ratio{"accept to task / bare", routing, leastTasks, false})
}

func medianLoad[T any](rounds []T, get func(T) load) load {
	return load{
		perSec: medianOf(rounds, func(x T) float64 { return get(x).perSec }),
		p50:    time.Duration(medianOf(rounds, func(x T) float64 { return float64(get(x).p50) })),
		p99:    time.Duration(medianOf(rounds, func(x T) float64 { return float64(get(x).p99) })),
	}
}

func medianMeasured[T any](rounds []T, get func(T) measured) measured {
	return measured{
		load:         medianLoad(rounds, func(x T) load { return get(x).load }),
		transactions: medianOf(rounds, func(x T) float64 { return get(x).transactions }),
		wal:          medianOf(rounds, func(x T) float64 { return get(x).wal }),
		gatewayCPU:   medianOf(rounds, func(x T) float64 { return get(x).gatewayCPU }),
		databaseCPU:  medianOf(rounds, func(x T) float64 { return get(x).databaseCPU }),
	}
}

func (r *run) reportHead() {
	r.print("\n%-38s %10s %9s %9s %12s %11s %11s %12s\n", "medians", "per second", "p50", "p99", "transactions", "WAL bytes", "gateway CPU", "PostgreSQL's")
}

func (r *run) reportLoad(l load) {
	const unit = 10 * time.Microsecond
	r.print(" %10.0f %9s %9s", l.perSec, l.p50.Round(unit), l.p99.Round(unit))
}

func (r *run) reportMeasured(m measured) {
	r.reportLoad(m.load)
	r.print(" %12.3f %11.0f %9.0fµs %10.0fµs\n", m.transactions, m.wal, m.gatewayCPU, m.databaseCPU)
}
