package main

import (
	"context"
	"fmt"

	"github.com/eventhook/eventhook/bench/measure"
)

const (
	eventShaped, eventComputed, eventScoped = "bench.shaped", "bench.computed", "bench.scoped"

	scopedSubscriptions = 10_000

	benchScope = "bench-customer"

	maxTransformed = 1.3 // time per delivery, over deliveries without a transform
	maxScoped      = 1.1 // time per delivery, over one subscription
)

// Transforms of the bench. The first one reads members and joins texts. The gateway runs the
// second one in a script process, because it sorts.
const (
	shapedBy   = "{id: event_id, type: event_type, time: timestamp, repository: data.repository.full_name, text: join(' ', ['Push to', data.ref]), data: data}"
	computedBy = "{id: event_id, members: sort(keys(data)), data: data}"
)

// transform compares the time per delivery with a transform in JMESPath with that without.
func (r *run) transform(ctx context.Context) error {
	r.print("transform: 1 KB of data; %d concurrent requests; %d rounds of %s each\n", r.connections, r.rounds, r.length)
	to, err := startSink(ctx)
	if err != nil {
		return err
	}
	defer to.stop()
	p, err := r.publisher(ctx, "transform")
	if err != nil {
		return err
	}
	defer p.stop()
	for _, s := range []subscription{
		{Name: "plain", EventTypes: []string{eventPlain}},
		{Name: "shaped", EventTypes: []string{eventShaped}, Transform: &jmespath{"jmespath", shapedBy}},
		{Name: "computed", EventTypes: []string{eventComputed}, Transform: &jmespath{"jmespath", computedBy}},
	} {
		s.URL, s.MaxInFlight = to.url("0ms", s.Name), r.connections
		if _, err := p.createSubscription(ctx, s); err != nil {
			return err
		}
	}
	var shaped, computed []float64
	for round := range r.rounds + 1 { // the first is a warm-up
		var rates [3]float64
		for i, eventType := range []string{eventPlain, eventShaped, eventComputed} {
			m, err := p.measureDeliveries(ctx, r, to, p.publishRequests(eventType), 1, r.length)
			if err != nil {
				return fmt.Errorf("%s: %w", eventType, err)
			}
			rates[i] = m.perSec
		}
		if round > 0 {
			shaped, computed = append(shaped, rates[0]/rates[1]), append(computed, rates[0]/rates[2])
			r.print("  without %6.0f/s   with a transform %6.0f/s (%.2f)   with one that sorts, in a script process %6.0f/s (%.2f)\n",
				rates[0], rates[1], rates[0]/rates[1], rates[2], rates[0]/rates[2])
		}
	}
	r.print("time per delivery with a transform that sorts / without: %.2f\n", median(computed))
	r.addRatios(measure.AtMost("time per delivery with a transform in JMESPath / without", median(shaped), maxTransformed))
	return nil
}

// scopeFilter compares the time per delivery of a tenant whose 10 000 subscriptions have a
// scope_filter, of which one matches each event, with that of a tenant that has only this one.
func (r *run) scopeFilter(ctx context.Context) error {
	r.print("scope_filter: %d subscriptions; %d concurrent requests; %d rounds of %s each\n", scopedSubscriptions, r.connections, r.rounds, r.length)
	to, err := startSink(ctx)
	if err != nil {
		return err
	}
	defer to.stop()
	var of [2]*publisher
	for i, name := range []string{"scope-one", "scope-many"} {
		if of[i], err = r.publisher(ctx, name); err != nil {
			return err
		}
		defer of[i].stop()
		mine := subscription{Name: "scoped", URL: to.url("0ms", name), EventTypes: []string{eventScoped}, MaxInFlight: r.connections, ScopeFilter: []string{benchScope + "/*"}}
		if _, err := of[i].createSubscription(ctx, mine); err != nil {
			return err
		}
	}
	if err := of[1].createScoped(ctx, to.url("0ms", "other"), scopedSubscriptions-1); err != nil {
		return err
	}
	var ratios []float64
	for round := range r.rounds + 1 { // the first is a warm-up
		var rates [2]float64
		for i, p := range of {
			spec := p.publishRequests(eventScoped)
			spec.scope = benchScope + "/eu"
			m, err := p.measureDeliveries(ctx, r, to, spec, 1, r.length)
			if err != nil {
				return fmt.Errorf("subscriptions of tenant %d: %w", i, err)
			}
			rates[i] = m.perSec
		}
		if round > 0 {
			ratios = append(ratios, rates[0]/rates[1])
			r.print("  one subscription %6.0f/s   %d with a scope_filter %6.0f/s (%.2f)\n", rates[0], scopedSubscriptions, rates[1], rates[0]/rates[1])
		}
	}
	r.addRatios(measure.AtMost(fmt.Sprintf("time per delivery with %d subscriptions with a scope_filter / one", scopedSubscriptions), median(ratios), maxScoped))
	return nil
}

// createScoped creates subscriptions with a scope of their own, one after another, because changes of one
// tenant wait for each other.
func (p *publisher) createScoped(ctx context.Context, url string, number int) error {
	for i := range number {
		name := fmt.Sprintf("customer-%d", i)
		if _, err := p.createSubscription(ctx, subscription{Name: name, URL: url, EventTypes: []string{eventScoped}, ScopeFilter: []string{name, name + "/*"}}); err != nil {
			return err
		}
	}
	return nil
}

func median(list []float64) float64 {
	return measure.Median(list, func(x float64) float64 { return x })
}
