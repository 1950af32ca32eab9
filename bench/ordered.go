package main

import (
	"context"
	"fmt"

	"github.com/eventhook/eventhook/bench/measure"
)

const (
	eventPlain, eventOrdered = "bench.plain", "bench.ordered"

	orderedCustomers  = 1000 // of all connections together
	orderedDeliveries = 100_000
	minOrdered        = 0.7 // of the rate of unordered deliveries
)

// ordered compares the rate of deliveries that are ordered by a member with 1000 values with
// the rate of unordered ones, and counts that the sink gets each event in its order.
func (r *run) ordered(ctx context.Context) error {
	r.print("ordered: %d values; %d concurrent requests; %d rounds of %s each\n", orderedCustomers, r.connections, r.rounds, r.length)
	to, err := startSink(ctx)
	if err != nil {
		return err
	}
	defer to.stop()
	p, err := r.publisher(ctx, "ordered")
	if err != nil {
		return err
	}
	defer p.stop()
	for _, s := range []subscription{
		{Name: "plain", URL: to.url("0ms", "plain"), EventTypes: []string{eventPlain}, MaxInFlight: r.connections},
		{Name: "ordered", URL: to.url("0ms", "ordered"), EventTypes: []string{eventOrdered}, MaxInFlight: r.connections, OrderedBy: "data.customer"},
	} {
		if _, err := p.createSubscription(ctx, s); err != nil {
			return err
		}
	}
	var ratios []float64
	events, reordered := 0, 0
	for round := 0; round <= r.rounds || events < orderedDeliveries; round++ { // the first is a warm-up
		plain, err := p.measureDeliveries(ctx, r, to, r.withCustomers(p, eventPlain), 1, r.length)
		if err != nil {
			return fmt.Errorf("unordered: %w", err)
		}
		got, err := p.measureDeliveries(ctx, r, to, r.withCustomers(p, eventOrdered), 1, r.length)
		if err != nil {
			return fmt.Errorf("ordered: %w", err)
		}
		t, err := to.tally(ctx)
		if err != nil {
			return err
		}
		events, reordered = events+t.Distinct, reordered+t.Reordered
		if round > 0 {
			ratios = append(ratios, got.perSec/plain.perSec)
			r.print("  unordered %6.0f/s   ordered %6.0f/s (%.2f)   CPU of the database per delivery %.0f and %.0f us   %d events, %d out of order\n",
				plain.perSec, got.perSec, got.perSec/plain.perSec, plain.databaseCPU, got.databaseCPU, events, reordered)
		}
	}
	r.addRatios(measure.AtLeast("ordered / unordered deliveries", median(ratios), minOrdered),
		measure.AtMost("deliveries out of order", float64(reordered), 0))
	return nil
}

func (r *run) withCustomers(p *publisher, eventType string) requestSpec {
	spec := p.publishRequests(eventType)
	spec.customers = max(orderedCustomers/r.connections, 1)
	return spec
}
