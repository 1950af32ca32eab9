package main

import (
	"context"
	"errors"
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
	maxRecoveredP99 = 1.5 // of the p99 of other subscribers beside fresh deliveries
)

// recoveryRound is the result of one round. Rates count deliveries per second.
type recoveryRound struct {
	fresh, again               float64
	alone, beside, besideAgain time.Duration // p99 of other subscribers: alone, beside fresh deliveries, and with the recovery
}

// resending sends deliveries to a subscription again.
type resending struct {
	part, past string   // in texts
	begin      []string // statements with the subscription's id as $1
}

// recovered sends deliveries that died in an outage, and replayed sends dead and missing ones.
var (
	recovered = resending{"recovery", "recovered", []string{
		`UPDATE eventhook.delivery SET status = 'dead', last_error = 'down', completed_at = now(), recoveries = 0 WHERE destination_id = $1`,
		`INSERT INTO eventhook.replay (id, tenant_id, subscription_id, kind, since, until, due_at, created_at)
SELECT gen_random_uuid(), tenant_id, id, 'recovery', now() - interval '1 hour', now(), now(), now() FROM eventhook.subscription WHERE id = $1`,
	}}
	replayed = resending{"replay", "replayed", []string{
		`UPDATE eventhook.delivery SET status = 'dead', last_error = 'down', completed_at = now() WHERE destination_id = $1`,
		`DELETE FROM eventhook.delivery WHERE destination_id = $1 AND right(id::text, 1) < '8'`,
		`INSERT INTO eventhook.replay (id, tenant_id, subscription_id, kind, since, until, statuses, event_types, missing, due_at, created_at)
SELECT gen_random_uuid(), tenant_id, id, 'replay', (SELECT min(created_at) FROM eventhook.subscription), now(), '{dead}', '{` + eventMissed + `}', true, now(), now()
FROM eventhook.subscription WHERE id = $1`,
	}}
)

// recovery compares the rate of a recovery with the rate of fresh deliveries to the same
// subscriber, and the latency of deliveries to other subscribers beside both. The latency on a
// machine without other work is printed, too.
func (r *run) recovery(ctx context.Context) error { return r.resend(ctx, recovered) }

// replay compares as recovery does, for a replay of dead and missing deliveries.
func (r *run) replay(ctx context.Context) error { return r.resend(ctx, replayed) }

func (r *run) resend(ctx context.Context, how resending) error {
	r.print("%s: of the deliveries of %s to one subscriber, with %d events/s to each of %d others; %d rounds\n", how.part, r.length, otherRate, otherSubscribers, r.rounds)
	to, err := startSink(ctx)
	if err != nil {
		return err
	}
	defer to.stop()
	p, err := r.publisher(ctx, how.part)
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
		x, err := r.measureRecovery(ctx, p, to, func() error { return p.resend(ctx, missed, how) })
		if err != nil {
			return err
		}
		if round > 0 {
			rounds = append(rounds, x)
			r.print("  fresh %6.0f/s   %s %6.0f/s (%.2f)   p99 of others: alone %s   beside fresh %s   beside %s %s (%.2f)\n", x.fresh, how.past, x.again,
				x.again/x.fresh, x.alone, x.beside, how.past, x.besideAgain, float64(x.besideAgain)/float64(x.beside))
		}
	}
	r.addRatios(
		measure.AtLeast(how.past+" / fresh deliveries", measure.Median(rounds, func(x recoveryRound) float64 { return x.again / x.fresh }), minRecovered),
		measure.AtMost("p99 of other subscribers, beside "+how.past+" / fresh deliveries",
			measure.Median(rounds, func(x recoveryRound) float64 { return float64(x.besideAgain) / float64(x.beside) }), maxRecoveredP99))
	return nil
}

func (r *run) measureRecovery(ctx context.Context, p *publisher, to *sinkProcess, resend func() error) (x recoveryRound, err error) {
	others := p.publishRequests(eventCreated)
	others.timestamped = true
	if x.beside, err = r.besideFresh(ctx, p, to, others); err != nil {
		return x, fmt.Errorf("beside fresh deliveries: %w", err)
	}
	for _, table := range []string{"delivery", "event", "event_payload"} { // of earlier rounds
		if _, err := p.stats.conn.Exec(ctx, `DELETE FROM eventhook.`+table); err != nil {
			return x, err
		}
	}
	fresh, err := p.measureDeliveries(ctx, r, to, p.publishRequests(eventMissed), 1, r.length)
	if err != nil {
		return x, fmt.Errorf("fresh: %w", err)
	}
	x.fresh = fresh.perSec
	t, err := p.measureLatency(ctx, to, others, otherRate, r.length)
	if err != nil {
		return x, err
	}
	x.alone = t.P99
	if err := to.reset(ctx); err != nil {
		return x, err
	}
	if err := resend(); err != nil {
		return x, err
	}
	return r.awaitRecovery(ctx, to, x, others, fresh.ok)
}

// besideFresh returns the p99 of the other subscribers while fresh deliveries are sent.
func (r *run) besideFresh(ctx context.Context, p *publisher, to *sinkProcess, others requestSpec) (time.Duration, error) {
	if err := to.reset(ctx); err != nil {
		return 0, err
	}
	sent := make(chan error, 1)
	go func() { sent <- sendPaced(ctx, others, otherRate, r.length) }()
	_, err := send(ctx, p.publishRequests(eventMissed), r.connections, r.length)
	if err = errors.Join(err, <-sent); err != nil {
		return 0, err
	}
	if _, err := p.stats.waitSettled(ctx); err != nil {
		return 0, err
	}
	t, err := to.tally(ctx)
	return t.P99, err
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
	x.again = float64(n) / time.Since(began).Seconds()
	if err := <-sent; err != nil {
		return x, err
	}
	for want := otherRate * int(r.length/time.Second) * otherSubscribers; err == nil && t.Timed < want; {
		time.Sleep(recoveryPoll)
		t, err = to.tally(ctx)
	}
	x.besideAgain = t.P99
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

// resend sends the deliveries to a subscription again.
func (p *publisher) resend(ctx context.Context, subscription string, how resending) error {
	id, err := eventhook.ParseID[eventhook.Subscription](subscription)
	if err != nil {
		return err
	}
	for _, sql := range how.begin {
		if _, err := p.stats.conn.Exec(ctx, sql, [16]byte(id)); err != nil {
			return fmt.Errorf("%s: %w", how.part, err)
		}
	}
	return nil
}
