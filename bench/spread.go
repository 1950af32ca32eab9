package main

import (
	"context"
	"fmt"

	"github.com/eventhook/eventhook/ingest"
)

// How many sources there are beside one, and over how many requests are spread.
const (
	spreadSources = 100_000
	spreadOver    = 10_000
	spreadRounds  = 9
	routedRounds  = 3
)

// spreadRound is what one round gave.
type spreadRound struct{ one, many measured }

func (s spreadRound) ratio() float64 { return s.many.perSec / s.one.perSec }

// spread holds accepting for many of even more sources against accepting for
// the only one that there is.
func (r *run) spread(ctx context.Context) error {
	r.print("sources: %d connections to %d of %d sources in turn against one; rounds of %s each\n",
		r.connections, spreadOver, spreadSources, r.length)
	accepting, err := r.spreadRounds(ctx, "accepted", spreadRounds, false, acceptsOnly)
	if err != nil {
		return err
	}
	routing, err := r.spreadRounds(ctx, "routed", routedRounds, true)
	if err != nil {
		return err
	}
	r.reportHead()
	for _, row := range []struct {
		name   string
		rounds []spreadRound
		get    func(spreadRound) measured
	}{
		{"accepted, one source", accepting, func(s spreadRound) measured { return s.one }},
		{"accepted, many", accepting, func(s spreadRound) measured { return s.many }},
		{"accept to task, one source", routing, func(s spreadRound) measured { return s.one }},
		{"accept to task, many", routing, func(s spreadRound) measured { return s.many }},
	} {
		r.print("%-38s", row.name)
		r.reportMeasured(medianMeasured(row.rounds, row.get))
	}
	r.print("accept to task over many sources / over one: %.2f\n", medianOf(routing, spreadRound.ratio))
	r.ratios = append(r.ratios, ratio{"accepted over many sources / over one", medianOf(accepting, spreadRound.ratio), 0.95, false})
	return nil
}

// spreadRounds measures two gateways in turn.
func (r *run) spreadRounds(ctx context.Context, name string, number int, drain bool, env ...string) (rounds []spreadRound, err error) {
	one, err := r.gateway(ctx, name+"-one", env...)
	if err != nil {
		return nil, err
	}
	defer one.stop()
	many, err := r.gateway(ctx, name+"-many", env...)
	if err != nil {
		return nil, err
	}
	defer many.stop()
	if err := many.spreadOut(ctx); err != nil {
		return nil, err
	}
	for sent := 0; sent < 2*spreadOver; { // each has been asked for, and again
		l, err := send(ctx, many.to, r.connections, r.length)
		if err != nil {
			return nil, err
		}
		sent += l.ok
	}
	for round := range number + 1 { // the first warms up
		var x spreadRound
		if x.one, err = one.measure(ctx, r, drain); err != nil {
			return nil, fmt.Errorf("%s, one source: %w", name, err)
		}
		if x.many, err = many.measure(ctx, r, drain); err != nil {
			return nil, fmt.Errorf("%s, many sources: %w", name, err)
		}
		if round > 0 {
			rounds = append(rounds, x)
			r.print("  %-8s  one source %6.0f/s   many %6.0f/s (%.2f)\n", name, x.one.perSec, x.many.perSec, x.ratio())
		}
	}
	return rounds, nil
}

// spreadOut gives a gateway its many sources, and has some of them sent to.
func (g *gateway) spreadOut(ctx context.Context) error {
	f, err := newFiller(ctx, g.stats.conn, fewEvents, spreadSources)
	if err != nil {
		return err
	}
	if err := f.fill(ctx, filledSources...); err != nil {
		return err
	}
	g.to.paths = nil
	for i := range spreadOver {
		g.to.paths = append(g.to.paths, ingest.Path(benchTenant, filledSource(1+i*(spreadSources/spreadOver))))
	}
	if err := g.sealVerifiers(ctx); err != nil {
		return fmt.Errorf("seal the verifiers of the sources: %w", err)
	}
	return f.settle(ctx)
}
