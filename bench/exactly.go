package main

import (
	"context"
	"fmt"
	"time"

	"github.com/eventhook/eventhook/internal/seal"
)

// How many deliveries two gateways share, and what is beside them.
const (
	exactlyDeliveries = 100_000
	exactlyAnswer     = "20ms" // so that many are under way at any moment
	exactlyLength     = time.Second
	exactlyLongest    = 5 * time.Minute
)

// exactly has two gateways deliver what both publish and what neither has in its
// memory, and counts at the sink: while leases hold, none is sent twice.
func (r *run) exactly(ctx context.Context) error {
	r.print("exactly: two gateways, %d deliveries or more, answered after %s\n", exactlyDeliveries, exactlyAnswer)
	ctx, cancel := context.WithTimeout(ctx, exactlyLongest)
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
	other, err := r.second(ctx, first, keys...)
	if err != nil {
		return err
	}
	defer other.stop()
	for i := range subscribers {
		id, err := first.subscribe(ctx, subscription{Name: "one", URL: to.url(exactlyAnswer, "one"), EventTypes: []string{made}, MaxInFlight: r.connections})
		if err != nil {
			return err
		}
		if i == 0 { // half of them lie in the database at first
			if err := first.owe(ctx, id, exactlyDeliveries/2); err != nil {
				return err
			}
		}
	}
	events, err := r.publishToBoth(ctx, first, other)
	if err != nil {
		return err
	}
	if _, err := first.stats.settled(ctx); err != nil {
		return err
	}
	got, err := to.told(ctx)
	if err != nil {
		return err
	}
	want := exactlyDeliveries/2 + events*subscribers
	r.print("  %d events and a backlog of %d: the sink got %d of %d deliveries, and %d of them again\n", events, exactlyDeliveries/2, got.Distinct, want, got.Again)
	r.ratios = append(r.ratios, ratio{"deliveries that two gateways have sent twice", float64(got.Again), 0, true},
		ratio{"deliveries that the sink got / that there are", float64(got.Distinct) / float64(want), 1, false})
	return nil
}

const exactlyKey = "ehk_the-admin-key-of-the-bench"

// publishToBoth publishes in turn until there are as many deliveries as are wanted.
func (r *run) publishToBoth(ctx context.Context, first, other *publisher) (events int, err error) {
	for turn := 0; events*subscribers < exactlyDeliveries/2; turn++ {
		to := []*publisher{first, other}[turn%2]
		l, err := send(ctx, to.publishes(made), r.connections, exactlyLength)
		if err != nil {
			return 0, fmt.Errorf("publish: %w", err)
		}
		events += l.ok
	}
	return events, nil
}
