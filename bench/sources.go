package main

import (
	"context"
	"fmt"

	"github.com/eventhook/eventhook/bench/measure"
	"github.com/eventhook/eventhook/bench/seed"
	"github.com/eventhook/eventhook/ingest"
)

const (
	allSources    = 100_000
	usedSources   = 10_000
	sourcesRounds = 9
	routedRounds  = 3
)

// sourcesRound is the result of one round.
type sourcesRound struct{ one, many measurement }

func (s sourcesRound) ratio() float64 { return s.many.perSec / s.one.perSec }

// sources compares accepting for many sources, of even more in the database, with
// accepting for a single source.
func (r *run) sources(ctx context.Context) error {
	r.print("sources: %d connections to %d of %d sources in turn, against one source; rounds of %s each\n",
		r.connections, usedSources, allSources, r.length)
	accepting, err := r.measureSources(ctx, "accepted", sourcesRounds, false, acceptOnly)
	if err != nil {
		return err
	}
	routing, err := r.measureSources(ctx, "routed", routedRounds, true)
	if err != nil {
		return err
	}
	r.reportHead()
	for _, row := range []struct {
		name   string
		rounds []sourcesRound
		get    func(sourcesRound) measurement
	}{
		{"accepted, one source", accepting, func(s sourcesRound) measurement { return s.one }},
		{"accepted, many", accepting, func(s sourcesRound) measurement { return s.many }},
		{"accept to task, one source", routing, func(s sourcesRound) measurement { return s.one }},
		{"accept to task, many", routing, func(s sourcesRound) measurement { return s.many }},
	} {
		r.print("%-38s", row.name)
		r.reportMeasured(medianMeasured(row.rounds, row.get))
	}
	r.print("accept to task over many sources / over one: %.2f\n", measure.Median(routing, sourcesRound.ratio))
	r.addRatios(measure.AtLeast("accepted over many sources / over one", measure.Median(accepting, sourcesRound.ratio), 0.95))
	return nil
}

// measureSources measures a gateway with one source and a gateway with many in turn.
func (r *run) measureSources(ctx context.Context, name string, number int, drain bool, env ...string) (rounds []sourcesRound, err error) {
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
	if err := many.addSources(ctx); err != nil {
		return nil, err
	}
	for sent := 0; sent < 2*usedSources; { // each source has been read twice
		l, err := send(ctx, many.to, r.connections, r.length)
		if err != nil {
			return nil, err
		}
		sent += l.ok
	}
	for round := range number + 1 { // the first is a warm-up
		var x sourcesRound
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

// addSources inserts many sources and makes the requests of the gateway go to some of
// them.
func (g *gateway) addSources(ctx context.Context) error {
	const events = 1000 // Open needs a number; no event is inserted
	db, err := seed.Open(ctx, g.stats.conn, benchTenant, benchSource, events, allSources)
	if err != nil {
		return err
	}
	if err := db.Insert(ctx, seed.Sources...); err != nil {
		return err
	}
	g.to.paths = nil
	for i := range usedSources {
		g.to.paths = append(g.to.paths, ingest.Path(benchTenant, seed.SourceSlug(1+i*(allSources/usedSources))))
	}
	if err := g.sealSourceVerifiers(ctx); err != nil {
		return fmt.Errorf("seal the verifiers of the sources: %w", err)
	}
	return seed.Vacuum(ctx, g.stats.conn)
}
