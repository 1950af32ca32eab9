package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// reserveSendsSQL reserves the next sends of subscriptions with a rate limit: from now on, or
// from the end of the last reservation. Instances that share a subscription wait for each
// other's row locks, in the order of ids. Primary keys; the row changes in place (HOT).
const reserveSendsSQL = `
INSERT INTO eventhook.subscription_health AS h (subscription_id, paced_until)
SELECT s.id, $3::timestamptz + u.span
FROM unnest($1::uuid[], $2::interval[]) AS u (id, span) JOIN eventhook.subscription s ON s.id = u.id
ORDER BY s.id
ON CONFLICT (subscription_id) DO UPDATE
    SET paced_until = greatest(h.paced_until, $3) + (excluded.paced_until - $3)
RETURNING subscription_id, paced_until`

// ReserveSends reserves sends of subscriptions with a rate limit, across all instances. For
// each request it returns when the first send may start; the next ones follow 1/PerSecond
// apart. A reservation that is not used is lost. A subscription that does not exist any more
// may send at once.
func (db *DB) ReserveSends(ctx context.Context, list []outbound.SendReservation) ([]time.Time, error) {
	now := db.now()
	spans := make(map[eventhook.DestinationID]time.Duration, len(list))
	for _, r := range list {
		spans[r.DestinationID] += sendSpan(r)
	}
	var ids [][16]byte
	var lengths []time.Duration
	for id, span := range spans {
		ids, lengths = append(ids, id), append(lengths, span)
	}
	next, err := db.reserveSends(ctx, ids, lengths, now)
	if hasCode(err, codeForeignKey) { // a subscription was deleted concurrently
		next, err = db.reserveSends(ctx, ids, lengths, now)
	}
	if err != nil {
		return nil, translate("pace deliveries", err)
	}
	starts := make([]time.Time, len(list))
	for i, r := range list {
		until, ok := next[r.DestinationID]
		if !ok {
			starts[i] = now
			continue
		}
		starts[i] = until.Add(-spans[r.DestinationID])
		spans[r.DestinationID] -= sendSpan(r)
	}
	return starts, nil
}

// sendSpan returns how long the sends of a request take at its rate.
func sendSpan(r outbound.SendReservation) time.Duration {
	return (time.Duration(r.Count) * time.Second / time.Duration(max(r.PerSecond, 1))).Truncate(time.Microsecond)
}

func (db *DB) reserveSends(ctx context.Context, ids [][16]byte, spans []time.Duration, now time.Time) (map[eventhook.DestinationID]time.Time, error) {
	rows, err := db.work.Query(ctx, reserveSendsSQL, ids, spans, now)
	if err != nil {
		return nil, err
	}
	until := make(map[eventhook.DestinationID]time.Time, len(ids))
	var id eventhook.DestinationID
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &at}, func() error {
		until[id] = at
		return nil
	})
	return until, err
}
