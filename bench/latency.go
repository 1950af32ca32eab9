package main

import (
	"context"
	"fmt"
	"time"

	"github.com/eventhook/eventhook/bench/measure"
)

const (
	latencyRate   = 50 // webhooks per second
	latencyRounds = 3
	latencyLength = 10 * time.Second
)

// Limits from webhook to subscriber, in milliseconds.
const maxP50, maxP99 = 5.0, 25.0

// latency measures the time from sending a webhook to its arrival at a subscriber,
// through a route, at a low rate.
func (r *run) latency(ctx context.Context) error {
	r.print("latency: %d webhooks a second, routed to a subscriber; %d rounds of %s each\n", latencyRate, latencyRounds, latencyLength)
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
	if _, err := p.createSubscription(ctx, subscription{Name: "routed", URL: to.url("0ms", "routed"), EventTypes: []string{eventRouted}}); err != nil {
		return err
	}
	hooks := p.to
	hooks.timestamped = true
	var rounds []tally
	for round := range latencyRounds + 1 { // the first is a warm-up
		t, err := p.measureLatency(ctx, to, hooks, latencyRate, latencyLength)
		if err != nil {
			return err
		}
		if round > 0 {
			rounds = append(rounds, t)
			r.print("  sent to received: p50 %s   p99 %s\n", t.P50, t.P99)
		}
	}
	r.addRatios(
		measure.AtMost("p50 from webhook to subscriber, in ms", measure.Median(rounds, func(t tally) float64 { return milliseconds(t.P50) }), maxP50),
		measure.AtMost("p99 from webhook to subscriber, in ms", measure.Median(rounds, func(t tally) float64 { return milliseconds(t.P99) }), maxP99))
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// measureLatency sends at a constant rate for some time and returns the tally of the
// sink once no more requests arrive.
func (p *publisher) measureLatency(ctx context.Context, to *sinkProcess, requests requestSpec, perSecond int, length time.Duration) (t tally, err error) {
	if err := to.reset(ctx); err != nil {
		return t, err
	}
	if err := sendPaced(ctx, requests, perSecond, length); err != nil {
		return t, err
	}
	for wait := time.Now().Add(time.Minute); ; {
		before := t.Requests
		if t, err = to.tally(ctx); err != nil {
			return t, err
		}
		switch {
		case t.Timed > 0 && t.Requests == before:
			return t, nil
		case time.Now().After(wait):
			return t, fmt.Errorf("%d deliveries arrived, and more still arrive", t.Requests)
		}
		time.Sleep(time.Second)
	}
}
