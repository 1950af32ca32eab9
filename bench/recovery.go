package main

import (
	"context"
	"fmt"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/bench/measure"
)

const (
	eventMissed = "bench.missed"

	otherSubscribers = 5
	otherRate        = 50 // events per second to each of them

	minRecovered    = 0.8 // of the rate of fresh deliveries
	maxRecoveredP99 = 1.5 // of the p99 of other subscribers without a recovery
)

// recoveryRound is the result of one round. Rates count deliveries per second.
type recoveryRound struct {
	fresh, recovered float64
	without, with    time.Duration // p99 of other subscribers
}

// recovery compares the rate of a recovery with the rate of fresh deliveries to the same
// subscriber, and the latency of deliveries to other subscribers with and without it.
func (r *run) recovery(ctx context.Context) error {
	r.print("recovery: of the deliveries of %s to one subscriber, with %d events/s to each of %d others; %d rounds\n", r.length, otherRate, otherSubscribers, r.rounds)
	to, err := startSink(ctx)
	if err != nil {
		return err
	}
	defer to.stop()
	p, err := r.publisher(ctx, "recovery")
	if err != nil {
		return err
	}
	defer p.stop()
	missed, err := p.createSubscription(ctx, subscription{Name: "missed", URL: to.url("0ms", "missed"), EventTypes: []string{eventMissed}, MaxInFlight: r.connections})
	if err != nil {
		return err
	}
	for i := range otherSubscribers {
		name := fmt.Sprintf("other-%d", i)
		if _, err := p.createSubscription(ctx, subscription{Name: name, URL: to.url("0ms", name), EventTypes: []string{eventCreated}}); err != nil {
			return err
		}
	}
	var rounds []recoveryRound
	for round := range r.rounds + 1 { // the first is a warm-up
		x, err := r.measureRecovery(ctx, p, to, missed)
		if err != nil {
			return err
		}
		if round > 0 {
			rounds = append(rounds, x)
			r.print("  fresh %6.0f/s   recovered %6.0f/s (%.2f)   p99 of others: without %s   with %s (%.2f)\n", x.fresh, x.recovered, x.recovered/x.fresh,
				x.without, x.with, float64(x.with)/float64(x.without))
		}
	}
	r.addRatios(
		measure.AtLeast("recovered / fresh deliveries", measure.Median(rounds, func(x recoveryRound) float64 { return x.recovered / x.fresh }), minRecovered),
		measure.AtMost("p99 of other subscribers during a recovery / without",
			measure.Median(rounds, func(x recoveryRound) float64 { return float64(x.with) / float64(x.without) }), maxRecoveredP99))
	return nil
}

func (r *run) measureRecovery(ctx context.Context, p *publisher, to *sinkProcess, missed string) (x recoveryRound, err error) {
	if _, err := p.stats.conn.Exec(ctx, `DELETE FROM eventhook.delivery`); err != nil { // of earlier rounds
		return x, err
	}
	fresh, err := p.measureDeliveries(ctx, r, to, p.publishRequests(eventMissed), 1, r.length)
	if err != nil {
		return x, fmt.Errorf("fresh: %w", err)
	}
	x.fresh = fresh.perSec
	others := p.publishRequests(eventCreated)
	others.timestamped = true
	t, err := p.measureLatency(ctx, to, others, otherRate, r.length)
	if err != nil {
		return x, err
	}
	x.without = t.P99
	if err := to.reset(ctx); err != nil {
		return x, err
	}
	if err := p.endOutage(ctx, missed); err != nil {
		return x, err
	}
	return r.awaitRecovery(ctx, to, x, others, fresh.ok)
}

// awaitRecovery measures from the first recovered delivery to the last of n. Meanwhile it sends
// to the other subscribers.
func (r *run) awaitRecovery(ctx context.Context, to *sinkProcess, x recoveryRound, others requestSpec, n int) (recoveryRound, error) {
	if _, err := to.waitRecovered(ctx, 1); err != nil {
		return x, err
	}
	began, sent := time.Now(), make(chan error, 1)
	go func() { sent <- sendPaced(ctx, others, otherRate, r.length) }()
	t, err := to.waitRecovered(ctx, n)
	x.recovered = float64(n) / time.Since(began).Seconds()
	if err := <-sent; err != nil {
		return x, err
	}
	for want := otherRate * int(r.length/time.Second) * otherSubscribers; err == nil && t.Timed < want; {
		time.Sleep(recoveryPoll)
		t, err = to.tally(ctx)
	}
	x.with = t.P99
	return x, err
}

const recoveryPoll = 10 * time.Millisecond

// waitRecovered waits until the sink has received n deliveries without a time of sending.
func (s *sinkProcess) waitRecovered(ctx context.Context, n int) (t tally, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		if t, err = s.tally(ctx); err != nil || t.Distinct-t.Timed >= n {
			return t, err
		}
		time.Sleep(recoveryPoll)
	}
}

// endOutage makes all deliveries to a subscription dead, and inserts the recovery of the outage
// that killed them.
func (p *publisher) endOutage(ctx context.Context, subscription string) error {
	id, err := eventhook.ParseID[eventhook.Subscription](subscription)
	if err != nil {
		return err
	}
	for _, sql := range []string{
		`UPDATE eventhook.delivery SET status = 'dead', last_error = 'down', completed_at = now(), recoveries = 0 WHERE destination_id = $1`,
		`INSERT INTO eventhook.replay (id, tenant_id, subscription_id, kind, since, until, due_at, created_at)
SELECT gen_random_uuid(), tenant_id, id, 'recovery', now() - interval '1 hour', now(), now(), now() FROM eventhook.subscription WHERE id = $1`,
	} {
		if _, err := p.stats.conn.Exec(ctx, sql, [16]byte(id)); err != nil {
			return err
		}
	}
	return nil
}
