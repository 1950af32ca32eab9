package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest/consume"
)

var _ consume.Store = (*DB)(nil)

// consumable is the condition under which the messages of a source s of a tenant t are consumed.
const consumable = `s.consume IS NOT NULL AND s.is_enabled AND t.status = 'active'`

// renewConsumersSQL changes the rows of this instance in place (HOT). Primary keys.
const renewConsumersSQL = `
UPDATE eventhook.source_consumer c SET lease_until = now() + @lease::interval, status = r.status, error = r.error, since = r.since, lag = r.lag
FROM unnest(@sources::uuid[], @tokens::bigint[], @statuses::text[], @errors::text[], @since::timestamptz[], @lags::bigint[])
        AS r (source_id, token, status, error, since, lag)
JOIN eventhook.source s ON s.id = r.source_id JOIN eventhook.tenant t ON t.id = s.tenant_id
WHERE c.source_id = r.source_id AND c.instance_id = @instance AND c.lease_token = r.token AND ` + consumable + `
RETURNING c.source_id, t.slug, s.slug, c.lease_token, s.version`

// RenewConsumers implements consume.Store. The clock of the database counts.
func (db *DB) RenewConsumers(ctx context.Context, reports []consume.Report, lease time.Duration) ([]consume.Lease, error) {
	n := len(reports)
	sources, tokens, lags := make([][16]byte, n), make([]int64, n), make([]*int64, n)
	statuses, errors, since := make([]string, n), make([]string, n), make([]time.Time, n)
	for i, r := range reports {
		sources[i], tokens[i], lags[i] = r.Source, r.Token, r.State.Lag
		statuses[i], errors[i], since[i] = string(r.State.Status), eventhook.SanitizeText(r.State.Error), r.State.Since
	}
	rows, err := db.work.Query(ctx, renewConsumersSQL, pgx.StrictNamedArgs{"instance": [16]byte(db.instance), "lease": lease,
		"sources": sources, "tokens": tokens, "statuses": statuses, "errors": errors, "since": since, "lags": lags})
	return collectLeases("renew the leases of consumers", rows, err)
}

func collectLeases(act string, rows pgx.Rows, err error) ([]consume.Lease, error) {
	if err != nil {
		return nil, translate(act, err)
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (l consume.Lease, err error) {
		return l, r.Scan((*[16]byte)(&l.Source), &l.TenantSlug, &l.Slug, &l.Token, &l.Version)
	})
	return list, translate(act, err)
}

// consumerDemandSQL reads all sources that consume messages, by the primary keys of their leases.
const consumerDemandSQL = `
WITH own AS (
    INSERT INTO eventhook.consumer_instance AS i (instance_id, capacity, at) VALUES (@instance, @capacity, now())
    ON CONFLICT (instance_id) DO UPDATE SET capacity = excluded.capacity, at = excluded.at
)
SELECT (SELECT count(*) FROM eventhook.source_consumer c JOIN eventhook.source s ON s.id = c.source_id
        JOIN eventhook.tenant t ON t.id = s.tenant_id WHERE ` + consumable + `),
    coalesce((SELECT array_agg(i.capacity) FROM eventhook.consumer_instance i
        WHERE i.instance_id <> @instance AND i.at > now() - @fresh::interval), '{}')`

// consumerInstanceAge is how long after its last sign an instance takes part.
const consumerInstanceAge = 10 * time.Second

// ConsumerDemand implements consume.Store.
func (db *DB) ConsumerDemand(ctx context.Context, capacity int) (sources int, capacities []int, err error) {
	err = db.work.QueryRow(ctx, consumerDemandSQL,
		pgx.StrictNamedArgs{"instance": [16]byte(db.instance), "capacity": capacity, "fresh": consumerInstanceAge}).Scan(&sources, &capacities)
	return sources, append(capacities, capacity), translate("count the sources that consume messages", err)
}

// claimConsumersSQL takes the sources of the tenants with the fewest leases first, and of a tenant those that have been
// free for longest. Sources that another transaction claims are left to it.
const claimConsumersSQL = `
WITH free AS MATERIALIZED (
    SELECT c.source_id, row_number() OVER (PARTITION BY c.tenant_id ORDER BY c.lease_until, c.source_id)
        + (SELECT count(*) FROM eventhook.source_consumer h WHERE h.tenant_id = c.tenant_id AND h.lease_until > now()) AS place
    FROM eventhook.source_consumer c JOIN eventhook.source s ON s.id = c.source_id
    JOIN eventhook.tenant t ON t.id = s.tenant_id
    WHERE c.lease_until <= now() - @overdue::interval AND ` + consumable + `
), taken AS MATERIALIZED (
    SELECT c.source_id FROM eventhook.source_consumer c JOIN free USING (source_id)
    WHERE c.lease_until <= now() - @overdue::interval
    ORDER BY free.place, c.lease_until, c.source_id LIMIT @max FOR UPDATE OF c SKIP LOCKED
)
UPDATE eventhook.source_consumer c
SET instance_id = @instance, lease_until = now() + @lease::interval, lease_token = c.lease_token + 1, status = 'waiting', error = @connecting, since = now(), lag = NULL
FROM taken JOIN eventhook.source s ON s.id = taken.source_id JOIN eventhook.tenant t ON t.id = s.tenant_id
WHERE c.source_id = taken.source_id
RETURNING c.source_id, t.slug, s.slug, c.lease_token, s.version`

// ClaimConsumers implements consume.Store.
func (db *DB) ClaimConsumers(ctx context.Context, max int, lease, overdue time.Duration) ([]consume.Lease, error) {
	rows, err := db.work.Query(ctx, claimConsumersSQL,
		pgx.StrictNamedArgs{"instance": [16]byte(db.instance), "max": max, "lease": lease, "overdue": overdue, "connecting": consume.Connecting})
	return collectLeases("claim consumers", rows, err)
}

// releaseConsumersSQL reads primary keys.
const releaseConsumersSQL = `
UPDATE eventhook.source_consumer c SET instance_id = NULL, lease_until = now(), status = 'waiting', error = '', since = now(), lag = NULL
FROM unnest($2::uuid[], $3::bigint[]) AS r (source_id, token)
WHERE c.source_id = r.source_id AND c.lease_token = r.token AND c.instance_id = $1`

// consumersTopic wakes the instances that consume messages.
const consumersTopic = "consumers"

// ReleaseConsumers implements consume.Store.
func (db *DB) ReleaseConsumers(ctx context.Context, leases []consume.Lease) error {
	sources, tokens := make([][16]byte, len(leases)), make([]int64, len(leases))
	for i, l := range leases {
		sources[i], tokens[i] = l.Source, l.Token
	}
	_, err := db.work.Exec(ctx, releaseConsumersSQL, [16]byte(db.instance), sources, tokens)
	if err == nil {
		db.hub.wake(consumersTopic)
	}
	return translate("release consumers", err)
}

// ConsumersChanged implements consume.Store.
func (db *DB) ConsumersChanged() <-chan struct{} { return db.hub.wait(consumersTopic) }

// consumerStatesSQL reads primary keys. The row of a consumer does not tell when its source was stopped: the last change of
// the source or of its tenant tells it, unless another change followed.
const consumerStatesSQL = `
SELECT c.source_id, CASE WHEN NOT (` + consumable + `) THEN 'stopped' WHEN c.instance_id IS NULL OR c.lease_until <= now() THEN 'waiting' ELSE c.status END,
    c.error, coalesce(least(CASE WHEN NOT s.is_enabled THEN s.updated_at END, CASE WHEN t.status <> 'active' THEN t.updated_at END), c.since),
    CASE WHEN c.lease_until > now() THEN c.instance_id END, c.lag
FROM eventhook.source_consumer c JOIN eventhook.source s ON s.id = c.source_id JOIN eventhook.tenant t ON t.id = s.tenant_id
WHERE c.source_id = ANY($1)`

// ConsumerStates returns the states of the sources among these that consume messages.
func (db *DB) ConsumerStates(ctx context.Context, sources []eventhook.SourceID) (map[eventhook.SourceID]eventhook.ConsumerState, error) {
	rows, err := db.lists.Query(ctx, consumerStatesSQL, uuids(sources))
	if err != nil {
		return nil, translate("read the states of consumers", err)
	}
	states := make(map[eventhook.SourceID]eventhook.ConsumerState, len(sources))
	var source eventhook.SourceID
	var s eventhook.ConsumerState
	var instance *[16]byte
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&source), (*string)(&s.Status), &s.Error, &s.Since, &instance, &s.Lag}, func() error {
		one := s
		switch {
		case instance != nil && s.Status != eventhook.ConsumerStopped:
			one.Instance = *instance
		case s.Status == eventhook.ConsumerStopped:
			one.Error = ""
		default:
			one.Error = "no instance consumes the messages at present"
		}
		states[source] = one
		return nil
	})
	return states, translate("read the states of consumers", err)
}

// SweepConsumers deletes the instances that do not take part any more.
func (db *DB) SweepConsumers(ctx context.Context) (int, error) {
	done, err := db.work.Exec(ctx, `DELETE FROM eventhook.consumer_instance WHERE at < now() - interval '1 minute'`)
	return int(done.RowsAffected()), translate("delete instances that consume no messages", err)
}
