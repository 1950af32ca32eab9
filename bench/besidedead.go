package main

import (
	"context"
	"fmt"
	"time"
)

// Who is beside a dead subscriber, and what they get meanwhile.
const (
	healthy      = 99
	deadBacklog  = 100_000
	deadPace     = 5 // events a second, for each of them
	deadRounds   = 5
	deadLength   = 5 * time.Second
	mostSlowedBy = 1.5
)

// besideDead is what one round gave: the p99 of the healthy ones.
type besideDead struct{ without, with time.Duration }

// dead holds how long deliveries to healthy subscribers take beside one that
// never answers and has a backlog, against how long they take without it. Each
// round has a gateway of its own: what the dead one's deliveries have come to
// goes on into the next.
func (r *run) dead(ctx context.Context) error {
	r.print("dead: %d events/s to each of %d subscribers, without and beside one that never answers and has %d deliveries due; %d rounds of %s each\n",
		deadPace, healthy, deadBacklog, deadRounds, deadLength)
	to, err := startSink(ctx)
	if err != nil {
		return err
	}
	defer to.stop()
	var rounds []besideDead
	for round := range deadRounds {
		x, err := r.deadOnce(ctx, fmt.Sprintf("dead-%d", round), to)
		if err != nil {
			return err
		}
		rounds = append(rounds, x)
		r.print("  sent to received, p99: without %s   beside it %s (%.2f)\n", x.without, x.with, float64(x.with)/float64(x.without))
	}
	r.ratios = append(r.ratios, ratio{"p99 of the healthy beside a dead one / without it",
		medianOf(rounds, func(x besideDead) float64 { return float64(x.with) / float64(x.without) }), mostSlowedBy, true})
	return nil
}

func (r *run) deadOnce(ctx context.Context, name string, to *sinkProcess) (x besideDead, err error) {
	p, err := r.publisher(ctx, name)
	if err != nil {
		return x, err
	}
	defer p.stop()
	for i := range healthy {
		name := fmt.Sprintf("healthy-%d", i)
		if _, err := p.subscribe(ctx, subscription{Name: name, URL: to.url("0ms", name), EventTypes: []string{made}}); err != nil {
			return x, err
		}
	}
	events := p.publishes(made)
	events.stamps = true
	if _, err := p.timed(ctx, to, events, deadPace, time.Second); err != nil { // warms up
		return x, err
	}
	t, err := p.timed(ctx, to, events, deadPace, deadLength)
	if err != nil {
		return x, err
	}
	x.without = t.P99
	id, err := p.subscribe(ctx, deadSubscription(to.url(never, "dead"), made, viaRoute))
	if err != nil {
		return x, err
	}
	if err := p.owe(ctx, id, deadBacklog); err != nil {
		return x, err
	}
	if _, err := p.timed(ctx, to, events, deadPace, time.Second); err != nil { // it is found to be dead
		return x, err
	}
	if t, err = p.timed(ctx, to, events, deadPace, deadLength); err == nil && t.Distinct != deadPace*int(deadLength/time.Second)*healthy {
		err = fmt.Errorf("the healthy ones got %d deliveries, want %d", t.Distinct, deadPace*int(deadLength/time.Second)*healthy)
	}
	x.with = t.P99
	return x, err
}
