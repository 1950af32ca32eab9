package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/eventhook/eventhook/bench/measure"
)

// publishRound is the result of one round.
type publishRound struct{ accept, none, paused measurement }

// publish compares two rates with the rate of accepted webhooks: events published
// without a subscriber, and events published with a paused subscriber.
func (r *run) publish(ctx context.Context) error {
	r.print("publish: %d connections, 1 KB of data; %d rounds of %s each\n", r.connections, r.rounds, r.length)
	accepting, err := r.gateway(ctx, "publish-accept", acceptOnly)
	if err != nil {
		return err
	}
	defer accepting.stop()
	none, err := r.publisher(ctx, "publish-none")
	if err != nil {
		return err
	}
	defer none.stop()
	paused, err := r.publisher(ctx, "publish-paused")
	if err != nil {
		return err
	}
	defer paused.stop()
	id, err := paused.createSubscription(ctx, subscription{Name: "paused", URL: "http://127.0.0.1:1/", EventTypes: []string{eventCreated}})
	if err != nil {
		return err
	}
	if err := paused.call(ctx, http.MethodPost, "/subscriptions/"+id+"/pause", struct{}{}, nil); err != nil {
		return err
	}
	var rounds []publishRound
	for round := range r.rounds + 1 { // the first is a warm-up
		var x publishRound
		if x.accept, err = accepting.measure(ctx, r, false); err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		if x.none, err = none.publishGateway(eventCreated).measure(ctx, r, false); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		if x.paused, err = paused.publishGateway(eventCreated).measure(ctx, r, false); err != nil {
			return fmt.Errorf("publish to a paused subscriber: %w", err)
		}
		if round > 0 {
			rounds = append(rounds, x)
			r.print("  accepted %6.0f/s   published to no subscriber %6.0f/s (%.2f)   to a paused one %6.0f/s (%.2f)\n", x.accept.perSec,
				x.none.perSec, x.none.perSec/x.accept.perSec, x.paused.perSec, x.paused.perSec/x.accept.perSec)
		}
	}
	r.reportHead()
	for _, row := range []struct {
		name string
		get  func(publishRound) measurement
	}{
		{"accepted, committed before the 200", func(p publishRound) measurement { return p.accept }},
		{"published, no subscriber", func(p publishRound) measurement { return p.none }},
		{"published, paused subscriber", func(p publishRound) measurement { return p.paused }},
	} {
		r.print("%-38s", row.name)
		r.reportMeasured(medianMeasured(rounds, row.get))
	}
	r.print("published / accepted: no subscriber %.2f, paused subscriber %.2f\n",
		measure.Median(rounds, func(p publishRound) float64 { return p.none.perSec / p.accept.perSec }),
		measure.Median(rounds, func(p publishRound) float64 { return p.paused.perSec / p.accept.perSec }))
	return nil
}

// publishGateway returns the gateway with requests that publish events of a type.
func (p *publisher) publishGateway(eventType string) *gateway {
	g := *p.gateway
	g.to = p.publishRequests(eventType)
	return &g
}
