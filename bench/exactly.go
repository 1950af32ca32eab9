package main

import (
	"context"
	"fmt"
	"time"

	"github.com/eventhook/eventhook/bench/measure"
	"github.com/eventhook/eventhook/internal/seal"
)

const (
	exactlyDeliveries = 100_000
	exactlyAnswer     = "20ms" // so that many deliveries are in flight at any time
	exactlyLength     = time.Second
	exactlyTimeout    = 5 * time.Minute
)

// exactly runs two gateways on one database. They deliver events that both publish and
// a backlog that neither has in memory. The sink counts: while leases hold, no
// delivery is sent twice.
func (r *run) exactly(ctx context.Context) error {
	r.print("exactly: two gateways, %d deliveries or more, answered after %s\n", exactlyDeliveries, exactlyAnswer)
	ctx, cancel := context.WithTimeout(ctx, exactlyTimeout)
	defer cancel()
	to, err := startSink(ctx)
	if err != nil {
		return err
	}
	defer to.stop()
	keys := []string{"EVENTHOOK_ADMIN_KEY=" + exactlyKey, "EVENTHOOK_ENCRYPTION_KEYS=" + seal.NewKey()}
	first, err := r.publisher(ctx, "exactly", keys...)
	if err != nil {
		return err
	}
	defer first.stop()
	first.key = exactlyKey
	other, err := r.startSecond(ctx, first, keys...)
	if err != nil {
		return err
	}
	defer other.stop()
	for i := range subscribers {
		id, err := first.createSubscription(ctx, subscription{Name: "one", URL: to.url(exactlyAnswer, "one"), EventTypes: []string{eventCreated}, MaxInFlight: r.connections})
		if err != nil {
			return err
		}
		if i == 0 { // half of the deliveries are in the database from the start
			if err := first.insertDue(ctx, id, exactlyDeliveries/2); err != nil {
				return err
			}
		}
	}
	events, err := r.publishInTurn(ctx, first, other)
	if err != nil {
		return err
	}
	if _, err := first.stats.waitSettled(ctx); err != nil {
		return err
	}
	got, err := to.tally(ctx)
	if err != nil {
		return err
	}
	want := exactlyDeliveries/2 + events*subscribers
	r.print("  %d events and a backlog of %d: the sink received %d of %d deliveries, and %d duplicates\n", events, exactlyDeliveries/2, got.Distinct, want, got.Duplicates)
	r.addRatios(measure.AtMost("duplicate deliveries of two gateways", float64(got.Duplicates), 0),
		measure.AtLeast("deliveries received / stored", float64(got.Distinct)/float64(want), 1))
	return nil
}

const exactlyKey = "ehk_the-admin-key-of-the-bench"

// publishInTurn publishes to both gateways in turn until there are enough deliveries.
// It returns the number of events.
func (r *run) publishInTurn(ctx context.Context, first, other *publisher) (events int, err error) {
	for turn := 0; events*subscribers < exactlyDeliveries/2; turn++ {
		to := []*publisher{first, other}[turn%2]
		l, err := send(ctx, to.publishRequests(eventCreated), r.connections, exactlyLength)
		if err != nil {
			return 0, fmt.Errorf("publish: %w", err)
		}
		events += l.ok
	}
	return events, nil
}
