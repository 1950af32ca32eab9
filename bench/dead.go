package main

import (
	"context"
	"fmt"
	"time"

	"github.com/eventhook/eventhook/bench/measure"
)

const (
	healthy      = 99
	deadBacklog  = 100_000
	deadRate     = 5 // events per second to each healthy subscriber
	deadRounds   = 5
	deadLength   = 5 * time.Second
	maxDeadRatio = 1.5
)

// deadRound is the p99 of deliveries to the healthy subscribers in one round.
type deadRound struct{ without, with time.Duration }

// dead compares the latency of deliveries to healthy subscribers with and without
// another subscriber that never answers and has a backlog. Each round has a gateway of
// its own, because the state of the dead subscriber would last into the next round.
func (r *run) dead(ctx context.Context) error {
	r.print("dead: %d events/s to each of %d subscribers, without and with another subscriber that never answers and has %d due deliveries; %d rounds of %s each\n",
		deadRate, healthy, deadBacklog, deadRounds, deadLength)
	to, err := startSink(ctx)
	if err != nil {
		return err
	}
	defer to.stop()
	var rounds []deadRound
	for round := range deadRounds {
		x, err := r.measureDead(ctx, fmt.Sprintf("dead-%d", round), to)
		if err != nil {
			return err
		}
		rounds = append(rounds, x)
		r.print("  sent to received, p99: without %s   with %s (%.2f)\n", x.without, x.with, float64(x.with)/float64(x.without))
	}
	r.addRatios(measure.AtMost("p99 of healthy subscribers with a dead one / without",
		measure.Median(rounds, func(x deadRound) float64 { return float64(x.with) / float64(x.without) }), maxDeadRatio))
	return nil
}

func (r *run) measureDead(ctx context.Context, name string, to *sinkProcess) (x deadRound, err error) {
	p, err := r.publisher(ctx, name)
	if err != nil {
		return x, err
	}
	defer p.stop()
	for i := range healthy {
		name := fmt.Sprintf("healthy-%d", i)
		if _, err := p.createSubscription(ctx, subscription{Name: name, URL: to.url("0ms", name), EventTypes: []string{eventCreated}}); err != nil {
			return x, err
		}
	}
	events := p.publishRequests(eventCreated)
	events.timestamped = true
	if _, err := p.measureLatency(ctx, to, events, deadRate, time.Second); err != nil { // warm-up
		return x, err
	}
	t, err := p.measureLatency(ctx, to, events, deadRate, deadLength)
	if err != nil {
		return x, err
	}
	x.without = t.P99
	id, err := p.createSubscription(ctx, silentSubscription(to.url(never, "dead"), eventCreated, eventRouted))
	if err != nil {
		return x, err
	}
	if err := p.insertDue(ctx, id, deadBacklog); err != nil {
		return x, err
	}
	if _, err := p.measureLatency(ctx, to, events, deadRate, time.Second); err != nil { // until its circuit breaker opens
		return x, err
	}
	if t, err = p.measureLatency(ctx, to, events, deadRate, deadLength); err == nil && t.Distinct != deadRate*int(deadLength/time.Second)*healthy {
		err = fmt.Errorf("the healthy subscribers received %d deliveries, want %d", t.Distinct, deadRate*int(deadLength/time.Second)*healthy)
	}
	x.with = t.P99
	return x, err
}
