package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/eventhook/eventhook/bench/measure"
)

// acceptRound is the result of one round.
type acceptRound struct {
	bare          loadResult
	accept, tasks measurement
}

// accept compares accepting events, alone and with routing to a task, with a handler
// that only verifies.
func (r *run) accept(ctx context.Context) error {
	r.print("accept: %d connections, 1 KB bodies, HMAC-SHA256, deduplicated; %d rounds of %s each\n", r.connections, r.rounds, r.length)
	bare, bareAddress, err := start(ctx, "bare handler at ", os.Args[0], nil, "-bare", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer bare.stop()
	accepting, err := r.gateway(ctx, "accept", acceptOnly)
	if err != nil {
		return err
	}
	defer accepting.stop()
	routing, err := r.gateway(ctx, "tasks")
	if err != nil {
		return err
	}
	defer routing.stop()
	var rounds []acceptRound
	for round := range r.rounds + 1 { // the first is a warm-up
		var one acceptRound
		if one.bare, err = send(ctx, requestSpec{address: bareAddress, paths: []string{benchPath}}, r.connections, r.length); err != nil {
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

// minAccepted and minTasks are the limits for accepting, alone and with routing to a
// task: events per second over requests per second of the bare handler.
const minAccepted, minTasks = 0.40, 0.35

// acceptOnly is the setting of a gateway that never routes its events.
const acceptOnly = "EVENTHOOK_ROUTE_WORKERS=0"

func (r *run) reportAccepted(rounds []acceptRound) {
	r.reportHead()
	r.print("%-38s", "bare handler, no database")
	r.reportLoad(medianLoad(rounds, func(a acceptRound) loadResult { return a.bare }))
	r.print("\n")
	for _, row := range []struct {
		name string
		get  func(acceptRound) measurement
	}{
		{"accepted, committed before the 200", func(a acceptRound) measurement { return a.accept }},
		{"the same, with routing to a task", func(a acceptRound) measurement { return a.tasks }},
	} {
		r.print("%-38s", row.name)
		r.reportMeasured(medianMeasured(rounds, row.get))
	}
	accepting := measure.Median(rounds, func(a acceptRound) float64 { return a.accept.perSec / a.bare.perSec })
	routing := measure.Median(rounds, func(a acceptRound) float64 { return a.tasks.perSec / a.bare.perSec })
	r.addRatios(
		measure.AtLeast("accepted / bare", accepting, minAccepted),
		measure.AtLeast("accept to task / bare", routing, minTasks))
}

func medianLoad[T any](rounds []T, get func(T) loadResult) loadResult {
	return loadResult{
		perSec: measure.Median(rounds, func(x T) float64 { return get(x).perSec }),
		p50:    time.Duration(measure.Median(rounds, func(x T) float64 { return float64(get(x).p50) })),
		p99:    time.Duration(measure.Median(rounds, func(x T) float64 { return float64(get(x).p99) })),
	}
}

func medianMeasured[T any](rounds []T, get func(T) measurement) measurement {
	return measurement{
		loadResult:   medianLoad(rounds, func(x T) loadResult { return get(x).loadResult }),
		transactions: measure.Median(rounds, func(x T) float64 { return get(x).transactions }),
		wal:          measure.Median(rounds, func(x T) float64 { return get(x).wal }),
		gatewayCPU:   measure.Median(rounds, func(x T) float64 { return get(x).gatewayCPU }),
		databaseCPU:  measure.Median(rounds, func(x T) float64 { return get(x).databaseCPU }),
	}
}

func (r *run) reportHead() {
	r.print("\n%-38s %10s %9s %9s %12s %11s %11s %12s\n", "medians", "per second", "p50", "p99", "transactions", "WAL bytes", "gateway CPU", "PostgreSQL's")
}

func (r *run) reportLoad(l loadResult) {
	const unit = 10 * time.Microsecond
	r.print(" %10.0f %9s %9s", l.perSec, l.p50.Round(unit), l.p99.Round(unit))
}

func (r *run) reportMeasured(m measurement) {
	r.reportLoad(m.loadResult)
	r.print(" %12.3f %11.0f %9.0fµs %10.0fµs\n", m.transactions, m.wal, m.gatewayCPU, m.databaseCPU)
}
