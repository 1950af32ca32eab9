package main

import (
	"context"
	"fmt"
	"time"
)

// What arrives while latency is measured.
const (
	latencyPace   = 50 // webhooks a second
	latencyRounds = 3
	latencyLength = 10 * time.Second
)

// The longest that an event may take to its subscriber, in milliseconds.
const mostP50, mostP99 = 5.0, 25.0

// latency tells how long a webhook takes from its sending to the arrival at a
// subscriber, by way of a route, while few come.
func (r *run) latency(ctx context.Context) error {
	r.print("latency: %d webhooks a second, routed to a subscriber; %d rounds of %s each\n", latencyPace, latencyRounds, latencyLength)
	to, err := startSink(ctx)
	if err != nil {
		return err
	}
	defer to.stop()
	p, err := r.publisher(ctx, "latency")
	if err != nil {
		return err
	}
	defer p.stop()
	if _, err := p.subscribe(ctx, subscription{Name: "routed", URL: to.url("0ms", "routed"), EventTypes: []string{viaRoute}}); err != nil {
		return err
	}
	hooks := p.to
	hooks.stamps = true
	var rounds []tally
	for round := range latencyRounds + 1 { // the first warms up
		t, err := p.timed(ctx, to, hooks, latencyPace, latencyLength)
		if err != nil {
			return err
		}
		if round > 0 {
			rounds = append(rounds, t)
			r.print("  sent to received: p50 %s   p99 %s\n", t.P50, t.P99)
		}
	}
	r.ratios = append(r.ratios,
		ratio{"p50 from webhook to subscriber, in ms", medianOf(rounds, func(t tally) float64 { return milliseconds(t.P50) }), mostP50, true},
		ratio{"p99 from webhook to subscriber, in ms", medianOf(rounds, func(t tally) float64 { return milliseconds(t.P99) }), mostP99, true})
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// timed sends at a pace for a while, and tells how long it took to the sink. It
// does not wait for what the sink never answers.
func (p *publisher) timed(ctx context.Context, to *sinkProcess, what target, perSecond int, length time.Duration) (t tally, err error) {
	if err := to.clear(ctx); err != nil {
		return t, err
	}
	if err := pace(ctx, what, perSecond, length); err != nil {
		return t, err
	}
	for wait := time.Now().Add(time.Minute); ; {
		before := t.Requests
		if t, err = to.told(ctx); err != nil {
			return t, err
		}
		switch {
		case t.Timed > 0 && t.Requests == before:
			return t, nil
		case time.Now().After(wait):
			return t, fmt.Errorf("%d deliveries came, and still they do", t.Requests)
		}
		time.Sleep(time.Second)
	}
}
