package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/eventhook/eventhook/bench/measure"
	"github.com/eventhook/eventhook/internal/seal"
)

// pair is two gateways on one database.
type pair struct{ first, other *publisher }

// pairRound has the results of the first gateway alone and of both.
type pairRound struct{ one, both measurement }

// instances compares two gateways on one database with one of them. Both have the same number of
// connections together.
func (r *run) instances(ctx context.Context) error {
	const few = 4
	r.print("instances: two gateways on one PostgreSQL, %d connections together; %d rounds of %s each; %d processors\n",
		r.connections, r.rounds, r.length, runtime.NumCPU())
	if runtime.NumCPU() < few {
		r.print("  the senders, PostgreSQL and one gateway already use all %d processors: a second gateway can only add what waits\n", runtime.NumCPU())
	}
	accepted, err := r.instancesOf(ctx, "instances-accept", false, acceptOnly)
	if err != nil {
		return err
	}
	tasks, err := r.instancesOf(ctx, "instances-tasks", true)
	if err != nil {
		return err
	}
	r.reportHead()
	r.reportPair("accepted", accepted)
	r.reportPair("accept to task", tasks)
	return nil
}

// instancesOf measures a pair of gateways. If drain is set, the rates count processed events.
func (r *run) instancesOf(ctx context.Context, name string, drain bool, env ...string) (rounds []pairRound, err error) {
	env = append(env, "EVENTHOOK_ADMIN_KEY="+exactlyKey, "EVENTHOOK_ENCRYPTION_KEYS="+seal.NewKey())
	var p pair
	if p.first, err = r.publisherOf(ctx, name, `{type: task, task_kind: build}`, env...); err != nil {
		return nil, err
	}
	defer p.first.stop()
	if p.other, err = r.startSecond(ctx, p.first, env...); err != nil {
		return nil, err
	}
	defer p.other.stop()
	for round := range r.rounds + 1 { // the first is a warm-up
		var one pairRound
		if one.one, err = p.measure(ctx, r, drain, p.first); err != nil {
			return nil, fmt.Errorf("one gateway: %w", err)
		}
		if one.both, err = p.measure(ctx, r, drain, p.first, p.other); err != nil {
			return nil, fmt.Errorf("two gateways: %w", err)
		}
		if round > 0 {
			rounds = append(rounds, one)
			r.print("  %s: one %6.0f/s   two %6.0f/s (%.2f)\n", name, one.one.perSec, one.both.perSec, one.both.perSec/one.one.perSec)
		}
	}
	return rounds, nil
}

// measure sends to some gateways of the pair.
func (p pair) measure(ctx context.Context, r *run, drain bool, to ...*publisher) (m measurement, err error) {
	before, err := p.first.stats.read(ctx)
	if err != nil {
		return m, err
	}
	addresses := make([]requestSpec, len(to))
	for i, g := range to {
		addresses[i] = g.to
	}
	cpu, databaseCPU := p.first.CPU()+p.other.CPU(), p.first.databaseCPU()
	began := time.Now()
	if m.loadResult, err = sendToAll(ctx, addresses, r.connections, r.length); err != nil {
		return m, err
	}
	if drain {
		if err := p.first.stats.waitProcessed(ctx); err != nil {
			return m, err
		}
		m.perSec = float64(m.ok) / time.Since(began).Seconds()
	}
	after, err := p.first.stats.read(ctx)
	m.costs(before, after, p.first.CPU()+p.other.CPU()-cpu, p.first.databaseCPU()-databaseCPU)
	return m, err
}

func (r *run) reportPair(name string, rounds []pairRound) {
	r.print("%-38s", name+", one gateway")
	r.reportMeasured(medianMeasured(rounds, func(p pairRound) measurement { return p.one }))
	r.print("%-38s", name+", two gateways")
	r.reportMeasured(medianMeasured(rounds, func(p pairRound) measurement { return p.both }))
	r.print("%s by two gateways over one: %.2f (no limit)\n", name,
		measure.Median(rounds, func(p pairRound) float64 { return p.both.perSec / p.one.perSec }))
}
