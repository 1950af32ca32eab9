package main

import (
	"context"
	"fmt"
	"time"
)

// How many subscribers get an event that is for many, how slow the slow one is,
// and for what part of a measurement's length is sent what takes longer to
// deliver.
const (
	subscribers = 10
	slowAnswer  = "50ms"
	slowPart    = 4
)

// The types of events by who gets them.
const (
	forOne, forTen, forSlow = "bench.one", "bench.ten", "bench.slow"
)

// leastDelivered is the limit of deliveries per second over those of the bare
// client, mostTransactions that of PostgreSQL's transactions per delivery.
const leastDelivered, mostTransactions = 0.25, 0.10

// delivered is the result of one round. The rates are of deliveries.
type delivered struct {
	bare, bareSlow                 float64
	one, ten, slow, routed, target measured
}

// deliver holds delivering, from the first request until the last delivery is
// recorded, against a bare client that posts to the same sink.
func (r *run) deliver(ctx context.Context) error {
	r.print("deliver: 1 KB of data to 1 and to %d subscribers in a process of their own, which answer at once, or after %s; %d requests at once; %d rounds of %s each\n",
		subscribers, slowAnswer, r.connections, r.rounds, r.length)
	to, err := startSink(ctx)
	if err != nil {
		return err
	}
	defer to.stop()
	p, err := r.publisher(ctx, "deliver")
	if err != nil {
		return err
	}
	defer p.stop()
	if err := r.subscribeAll(ctx, p, to); err != nil {
		return err
	}
	// A gateway of its own has an http target instead of a subscriber.
	byTarget, err := r.publisherOf(ctx, "deliver-target", `{type: http, url: "`+to.url("0ms", "target")+`"}`)
	if err != nil {
		return err
	}
	defer byTarget.stop()
	var rounds []delivered
	for round := range r.rounds + 1 { // the first warms up
		x, err := r.deliverOnce(ctx, p, byTarget, to)
		if err != nil {
			return err
		}
		if round > 0 {
			rounds = append(rounds, x)
			r.print("  bare %6.0f/s   published to one %6.0f/s (%.2f)   to ten %6.0f/s (%.2f)   accepted, routed and delivered %6.0f/s (%.2f)   by an http target %6.0f/s (%.2f)\n    slow: bare %6.0f/s   published %6.0f/s (%.2f)\n",
				x.bare, x.one.perSec, x.one.perSec/x.bare, x.ten.perSec, x.ten.perSec/x.bare, x.routed.perSec, x.routed.perSec/x.bare,
				x.target.perSec, x.target.perSec/x.bare, x.bareSlow, x.slow.perSec, x.slow.perSec/x.bareSlow)
		}
	}
	r.reportDelivered(rounds)
	return nil
}

// subscribeAll makes the subscribers. Each kind may have as many requests under
// way as there are connections.
func (r *run) subscribeAll(ctx context.Context, p *publisher, to *sinkProcess) error {
	list := []subscription{
		{Name: "one", URL: to.url("0ms", "one"), EventTypes: []string{forOne}, MaxInFlight: r.connections},
		{Name: "routed", URL: to.url("0ms", "routed"), EventTypes: []string{viaRoute}, MaxInFlight: r.connections},
		{Name: "slow", URL: to.url(slowAnswer, "slow"), EventTypes: []string{forSlow}, MaxInFlight: r.connections},
	}
	for i := range subscribers {
		name := fmt.Sprintf("ten-%d", i)
		list = append(list, subscription{Name: name, URL: to.url("0ms", name), EventTypes: []string{forTen}, MaxInFlight: max(r.connections/subscribers, 1)})
	}
	for _, s := range list {
		if _, err := p.subscribe(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) deliverOnce(ctx context.Context, p, byTarget *publisher, to *sinkProcess) (x delivered, err error) {
	if x.bare, err = sendBare(ctx, to.url("0ms", "bare"), r.connections, r.length); err != nil {
		return x, err
	}
	// What is held against the bare client comes right after it: a machine that
	// others use, too, is not the same for long.
	for _, m := range []struct {
		what   string
		of     *publisher
		got    *measured
		to     target
		each   int
		length time.Duration
	}{
		{"routed", p, &x.routed, p.to, 1, r.length},
		{"one", p, &x.one, p.publishes(forOne), 1, r.length},
		{"http target", byTarget, &x.target, byTarget.to, 1, r.length},
		{"ten", p, &x.ten, p.publishes(forTen), subscribers, r.length / slowPart},
		{"slow", p, &x.slow, p.publishes(forSlow), 1, r.length / slowPart},
	} {
		if *m.got, err = m.of.measureDelivered(ctx, r, to, m.to, m.each, m.length); err != nil {
			return x, fmt.Errorf("%s: %w", m.what, err)
		}
	}
	x.bareSlow, err = sendBare(ctx, to.url(slowAnswer, "bare"), r.connections, r.length/slowPart)
	return x, err
}

// measureDelivered sends for a while and waits until all is recorded. Each event
// makes so many deliveries; what is told by the event is here told by the
// delivery. Anything less or more at the sink is an error.
func (p *publisher) measureDelivered(ctx context.Context, r *run, sink *sinkProcess, to target, each int, length time.Duration) (m measured, err error) {
	if err := sink.clear(ctx); err != nil {
		return m, err
	}
	before, err := p.stats.read(ctx)
	if err != nil {
		return m, err
	}
	cpu, databaseCPU, began := p.cpu(), p.databaseCPU(), time.Now()
	if m.load, err = send(ctx, to, r.connections, length); err != nil {
		return m, err
	}
	looks, err := p.stats.settled(ctx)
	if err != nil {
		return m, err
	}
	took := time.Since(began)
	after, err := p.stats.read(ctx)
	if err != nil {
		return m, err
	}
	got, err := sink.told(ctx)
	if want := m.ok * each; err == nil && (got.Distinct != want || got.Again > 0) {
		err = fmt.Errorf("the sink got %d deliveries and %d again, want each of %d once", got.Distinct, got.Again, want)
	}
	number := float64(m.ok * each)
	m.perSec = number / took.Seconds()
	m.transactions = (after.transactions - before.transactions - float64(looks)) / number
	m.wal = (after.wal - before.wal) / number
	m.gatewayCPU = (p.cpu() - cpu) / number
	m.databaseCPU = (p.databaseCPU() - databaseCPU) / number
	return m, err
}

func (r *run) reportDelivered(rounds []delivered) {
	r.reportHead()
	for _, row := range []struct {
		name string
		get  func(delivered) float64
	}{
		{"bare client, answered at once", func(d delivered) float64 { return d.bare }},
		{"bare client, answered after " + slowAnswer, func(d delivered) float64 { return d.bareSlow }},
	} {
		r.print("%-38s %10.0f\n", row.name, medianOf(rounds, row.get))
	}
	for _, row := range []struct {
		name string
		get  func(delivered) measured
	}{
		{"published, delivered to one", func(d delivered) measured { return d.one }},
		{"published, delivered to ten", func(d delivered) measured { return d.ten }},
		{"published, answered after " + slowAnswer, func(d delivered) measured { return d.slow }},
		{"accepted, routed, delivered", func(d delivered) measured { return d.routed }},
		{"accepted, delivered by an http target", func(d delivered) measured { return d.target }},
	} {
		r.print("%-38s", row.name)
		r.reportMeasured(medianMeasured(rounds, row.get))
	}
	perBare := func(get func(delivered) measured) float64 {
		return medianOf(rounds, func(d delivered) float64 { return get(d).perSec / d.bare })
	}
	transactions := func(get func(delivered) measured) float64 {
		return medianOf(rounds, func(d delivered) float64 { return get(d).transactions })
	}
	for _, x := range []struct {
		what, short string
		get         func(delivered) measured
	}{
		{"accepted, routed, delivered, recorded", "accepted and routed", func(d delivered) measured { return d.routed }},
		{"published, delivered, recorded", "published", func(d delivered) measured { return d.one }},
		{"accepted, sent to an http target, recorded", "http target", func(d delivered) measured { return d.target }},
	} {
		r.ratios = append(r.ratios, ratio{x.what + " / bare", perBare(x.get), leastDelivered, false},
			ratio{"transactions per delivery, " + x.short, transactions(x.get), mostTransactions, true})
	}
}
