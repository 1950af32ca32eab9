package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
)

// published is what one round gave.
type published struct{ accept, none, paused measured }

// publish tells what publishing an event costs, without a subscriber and with
// one for which it waits, beside accepting a webhook.
func (r *run) publish(ctx context.Context) error {
	r.print("publish: %d connections, 1 KB of data; %d rounds of %s each\n", r.connections, r.rounds, r.length)
	accepting, err := r.gateway(ctx, "publish-accept", acceptsOnly)
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
	id, err := paused.subscribe(ctx, subscription{Name: "paused", URL: "http://127.0.0.1:1/", EventTypes: []string{made}})
	if err != nil {
		return err
	}
	if err := paused.call(ctx, http.MethodPost, "/subscriptions/"+id+"/pause", struct{}{}, nil); err != nil {
		return err
	}
	var rounds []published
	for round := range r.rounds + 1 { // the first warms up
		var x published
		if x.accept, err = accepting.measure(ctx, r, false); err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		if x.none, err = none.publishing(made).measure(ctx, r, false); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		if x.paused, err = paused.publishing(made).measure(ctx, r, false); err != nil {
			return fmt.Errorf("publish to one that is paused: %w", err)
		}
		if round > 0 {
			rounds = append(rounds, x)
			r.print("  accepted %6.0f/s   published to nobody %6.0f/s (%.2f)   to one that is paused %6.0f/s (%.2f)\n", x.accept.perSec,
				x.none.perSec, x.none.perSec/x.accept.perSec, x.paused.perSec, x.paused.perSec/x.accept.perSec)
		}
	}
	r.reportHead()
	for _, row := range []struct {
		name string
		get  func(published) measured
	}{
		{"accepted, committed before the 200", func(p published) measured { return p.accept }},
		{"published to nobody", func(p published) measured { return p.none }},
		{"published to one that is paused", func(p published) measured { return p.paused }},
	} {
		r.print("%-38s", row.name)
		r.reportMeasured(medianMeasured(rounds, row.get))
	}
	r.print("published / accepted: to nobody %.2f, to one that is paused %.2f\n",
		medianOf(rounds, func(p published) float64 { return p.none.perSec / p.accept.perSec }),
		medianOf(rounds, func(p published) float64 { return p.paused.perSec / p.accept.perSec }))
	return nil
}

// publishing is the gateway whose requests publish events of a type.
func (p *publisher) publishing(eventType string) *gateway {
	g := *p.gateway
	g.to = p.publishes(eventType)
	return &g
}

// second starts another gateway on the database of one.
func (r *run) second(ctx context.Context, first *publisher, env ...string) (*publisher, error) {
	dsn := "postgres://eventhook@/eventhook?sslmode=disable&host=" + filepath.Join(first.dir, "postgres")
	p, address, err := start(ctx, gatewayAt, r.binary, append(env, toLoopback, "DATABASE_URL="+dsn),
		"serve", "--listen", "127.0.0.1:0", "--management-listen", "127.0.0.1:0", "--log-level", "warn")
	if err != nil {
		return nil, err
	}
	g := &gateway{p, first.dir, target{address: address, paths: []string{benchPath}}, first.stats}
	return &publisher{g, first.key}, nil
}
