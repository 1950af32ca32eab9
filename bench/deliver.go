package main

import (
	"context"
	"fmt"
	"time"

	"github.com/eventhook/eventhook/bench/measure"
)

const (
	subscribers = 10
	slowAnswer  = "50ms"
	slowPart    = 4 // slower cases send for this fraction of the time
)

// Event types: for one subscriber, for ten, and for the slow one.
const (
	eventForOne, eventForTen, eventForSlow = "bench.one", "bench.ten", "bench.slow"
)

// minDelivered limits deliveries per second over those of the bare client.
// maxTransactions limits PostgreSQL transactions per delivery.
const minDelivered, maxTransactions = 0.25, 0.10

// deliverRound is the result of one round. Rates count deliveries.
type deliverRound struct {
	bare, bareSlow                 float64
	one, ten, slow, routed, target measurement
}

// deliver compares delivering, from the first request until the last delivery is
// recorded, with a bare client that posts to the same sink.
func (r *run) deliver(ctx context.Context) error {
	r.print("deliver: 1 KB of data to 1 and to %d subscribers in a separate process, which answer at once, or after %s; %d concurrent requests; %d rounds of %s each\n",
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
	if err := r.createSubscriptions(ctx, p, to); err != nil {
		return err
	}
	// A second gateway has an http target instead of a subscriber.
	viaTarget, err := r.publisherOf(ctx, "deliver-target", `{type: http, url: "`+to.url("0ms", "target")+`"}`)
	if err != nil {
		return err
	}
	defer viaTarget.stop()
	var rounds []deliverRound
	for round := range r.rounds + 1 { // the first is a warm-up
		x, err := r.measureDeliver(ctx, p, viaTarget, to)
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

// createSubscriptions creates the subscriptions. Each kind may have as many concurrent
// requests as there are connections.
func (r *run) createSubscriptions(ctx context.Context, p *publisher, to *sinkProcess) error {
	list := []subscription{
		{Name: "one", URL: to.url("0ms", "one"), EventTypes: []string{eventForOne}, MaxInFlight: r.connections},
		{Name: "routed", URL: to.url("0ms", "routed"), EventTypes: []string{eventRouted}, MaxInFlight: r.connections},
		{Name: "slow", URL: to.url(slowAnswer, "slow"), EventTypes: []string{eventForSlow}, MaxInFlight: r.connections},
	}
	for i := range subscribers {
		name := fmt.Sprintf("ten-%d", i)
		list = append(list, subscription{Name: name, URL: to.url("0ms", name), EventTypes: []string{eventForTen}, MaxInFlight: max(r.connections/subscribers, 1)})
	}
	for _, s := range list {
		if _, err := p.createSubscription(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) measureDeliver(ctx context.Context, p, viaTarget *publisher, to *sinkProcess) (x deliverRound, err error) {
	if x.bare, err = sendBareClient(ctx, to.url("0ms", "bare"), r.connections, r.length); err != nil {
		return x, err
	}
	// Cases with a limit run right after the bare client, because other work on the
	// machine changes its speed.
	for _, m := range []struct {
		what   string
		of     *publisher
		got    *measurement
		to     requestSpec
		each   int
		length time.Duration
	}{
		{"routed", p, &x.routed, p.to, 1, r.length},
		{"one", p, &x.one, p.publishRequests(eventForOne), 1, r.length},
		{"http target", viaTarget, &x.target, viaTarget.to, 1, r.length},
		{"ten", p, &x.ten, p.publishRequests(eventForTen), subscribers, r.length / slowPart},
		{"slow", p, &x.slow, p.publishRequests(eventForSlow), 1, r.length / slowPart},
	} {
		if *m.got, err = m.of.measureDeliveries(ctx, r, to, m.to, m.each, m.length); err != nil {
			return x, fmt.Errorf("%s: %w", m.what, err)
		}
	}
	x.bareSlow, err = sendBareClient(ctx, to.url(slowAnswer, "bare"), r.connections, r.length/slowPart)
	return x, err
}

// measureDeliveries sends for some time and waits until all deliveries are recorded.
// Each event has the given number of deliveries. The costs in the result are per
// delivery. Missing and duplicate deliveries at the sink are errors.
func (p *publisher) measureDeliveries(ctx context.Context, r *run, sink *sinkProcess, to requestSpec, each int, length time.Duration) (m measurement, err error) {
	if err := sink.reset(ctx); err != nil {
		return m, err
	}
	before, err := p.stats.read(ctx)
	if err != nil {
		return m, err
	}
	cpu, databaseCPU, began := p.CPU(), p.databaseCPU(), time.Now()
	if m.loadResult, err = send(ctx, to, r.connections, length); err != nil {
		return m, err
	}
	queries, err := p.stats.waitSettled(ctx)
	if err != nil {
		return m, err
	}
	took := time.Since(began)
	after, err := p.stats.read(ctx)
	if err != nil {
		return m, err
	}
	got, err := sink.tally(ctx)
	if want := m.ok * each; err == nil && (got.Distinct != want || got.Duplicates > 0) {
		err = fmt.Errorf("the sink received %d deliveries and %d duplicates, want each of %d once", got.Distinct, got.Duplicates, want)
	}
	number := float64(m.ok * each)
	m.perSec = number / took.Seconds()
	m.transactions = (after.transactions - before.transactions - float64(queries)) / number
	m.wal = (after.wal - before.wal) / number
	m.gatewayCPU = (p.CPU() - cpu) / number
	m.databaseCPU = (p.databaseCPU() - databaseCPU) / number
	return m, err
}

func (r *run) reportDelivered(rounds []deliverRound) {
	r.reportHead()
	for _, row := range []struct {
		name string
		get  func(deliverRound) float64
	}{
		{"bare client, answered at once", func(d deliverRound) float64 { return d.bare }},
		{"bare client, answered after " + slowAnswer, func(d deliverRound) float64 { return d.bareSlow }},
	} {
		r.print("%-38s %10.0f\n", row.name, measure.Median(rounds, row.get))
	}
	for _, row := range []struct {
		name string
		get  func(deliverRound) measurement
	}{
		{"published, delivered to one", func(d deliverRound) measurement { return d.one }},
		{"published, delivered to ten", func(d deliverRound) measurement { return d.ten }},
		{"published, answered after " + slowAnswer, func(d deliverRound) measurement { return d.slow }},
		{"accepted, routed, delivered", func(d deliverRound) measurement { return d.routed }},
		{"accepted, delivered by an http target", func(d deliverRound) measurement { return d.target }},
	} {
		r.print("%-38s", row.name)
		r.reportMeasured(medianMeasured(rounds, row.get))
	}
	perBare := func(get func(deliverRound) measurement) float64 {
		return measure.Median(rounds, func(d deliverRound) float64 { return get(d).perSec / d.bare })
	}
	transactions := func(get func(deliverRound) measurement) float64 {
		return measure.Median(rounds, func(d deliverRound) float64 { return get(d).transactions })
	}
	for _, x := range []struct {
		what, short string
		get         func(deliverRound) measurement
	}{
		{"accepted, routed, delivered, recorded", "accepted and routed", func(d deliverRound) measurement { return d.routed }},
		{"published, delivered, recorded", "published", func(d deliverRound) measurement { return d.one }},
		{"accepted, sent to an http target, recorded", "http target", func(d deliverRound) measurement { return d.target }},
	} {
		r.addRatios(measure.AtLeast(x.what+" / bare", perBare(x.get), minDelivered),
			measure.AtMost("transactions per delivery, "+x.short, transactions(x.get), maxTransactions))
	}
}
