package pg

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// outageSQL reads the outage of a subscription, and whether a probe is due or being sent.
// Primary keys.
const outageSQL = `
SELECT h.failing_since, h.circuit_opened_at, h.next_probe_at, coalesce(h.probing_until > $2 OR s.status = 'active' AND h.next_probe_at <= $2, false)
FROM eventhook.subscription s LEFT JOIN eventhook.subscription_health h ON h.subscription_id = s.id
WHERE s.id = $1`

// runningRecoverySQL reads the oldest running recovery. Index replay_subscription.
const runningRecoverySQL = `
SELECT ` + replayColumns + ` FROM eventhook.replay r
WHERE r.subscription_id = $1 AND r.kind = 'recovery' AND r.status = 'running' ORDER BY r.id LIMIT 1`

// missedSQL counts the open deliveries of a subscription, and its deliveries that became dead since
// @since, among up to @max of each. Indexes delivery_due and delivery_destination_status.
const missedSQL = `
SELECT (SELECT count(*) FROM (SELECT d.tenant_id, d.id, d.event_id FROM eventhook.delivery d
        WHERE d.destination_id = @subscription AND d.due_at IS NOT NULL LIMIT @max) d WHERE ` + countsForScopeSQL + `)
    + (SELECT count(*) FROM (SELECT d.tenant_id, d.id, d.event_id FROM eventhook.delivery d
        WHERE d.destination_id = @subscription AND d.status = 'dead' AND d.status IN ('failed', 'dead')
          AND d.id >= @oldest AND d.completed_at >= @since AND d.recoveries < 3
        LIMIT @max) d WHERE ` + countsForScopeSQL + `)`

// SubscriptionOutage returns the outage of a subscription; the zero value without an outage. It
// counts missed deliveries only during an outage or a recovery, up to eventhook.MaxMissedCount, and
// only those of a customer if scope is not "". The error is KindNotFound if the subscription was
// deleted.
func (db *DB) SubscriptionOutage(ctx context.Context, of eventhook.Subscription,
	scope string) (o eventhook.Outage, err error) {
	const act = "read the outage of a subscription"
	now := db.now()
	err = db.lists.QueryRow(ctx, outageSQL, [16]byte(of.ID), now).Scan(&o.FailingSince, &o.CircuitOpenedAt, &o.NextProbeAt, &o.IsProbing)
	if err != nil {
		return o, translate(act, notFound(err, "subscription"))
	}
	r, err := scanReplay(db.lists.QueryRow(ctx, runningRecoverySQL, [16]byte(of.ID)))
	if err == nil {
		o.Recovery = &r
	} else if !errors.Is(err, pgx.ErrNoRows) {
		return o, translate(act, err)
	}
	since := missedSince(o)
	if since.IsZero() {
		return o, nil
	}
	oldest := eventhook.FirstID[eventhook.Delivery](now.Add(-of.Recovery.MaxAge()))
	args := pgx.StrictNamedArgs{"subscription": [16]byte(of.ID), "since": since, "oldest": [16]byte(oldest),
		"max": eventhook.MaxMissedCount}
	err = db.lists.QueryRow(ctx, missedSQL, addScope(args, scope, of.NarrowedAt)).Scan(&o.Missed)
	o.Missed = min(o.Missed, eventhook.MaxMissedCount)
	return o, translate(act, err)
}

// missedSince returns since when dead deliveries count as missed, zero without an outage.
func missedSince(o eventhook.Outage) (since time.Time) {
	if o.FailingSince != nil {
		since = o.FailingSince.Add(-clockSkew)
	}
	if o.Recovery != nil && (since.IsZero() || o.Recovery.Since.Before(since)) {
		since = o.Recovery.Since
	}
	return since
}

// subscriptionCountsSQL counts outages, running recoveries and running replays. Indexes
// subscription_health_probe and replay_due.
const subscriptionCountsSQL = `
SELECT (SELECT count(*) FROM eventhook.subscription_health WHERE next_probe_at IS NOT NULL),
    count(*) FILTER (WHERE kind = 'recovery'), count(*) FILTER (WHERE kind <> 'recovery')
FROM eventhook.replay WHERE due_at IS NOT NULL`

// SubscriptionCounts counts outages and running replays of all tenants.
func (db *DB) SubscriptionCounts(ctx context.Context) (n eventhook.SubscriptionCounts, err error) {
	err = db.lists.QueryRow(ctx, subscriptionCountsSQL).Scan(&n.Failing, &n.Recovering, &n.Replaying)
	return n, translate("count outages", err)
}

// expireHeldSQL ends deliveries of subscriptions that failures have disabled once their events
// or their last releases are older than recovery.max_age_hours: the first @limit of each, and as
// many deliveries that wait for earlier ones of their keys. Indexes subscription_health_probe and
// delivery_due, then primary keys.
const expireHeldSQL = `
WITH held AS MATERIALIZED (
    SELECT s.id, @now::timestamptz - coalesce((s.settings->'recovery'->>'max_age_hours')::int, @default_hours::int) * interval '1 hour' AS oldest
    FROM eventhook.subscription_health h JOIN eventhook.subscription s ON s.id = h.subscription_id
    WHERE h.next_probe_at IS NOT NULL AND h.is_held
), first AS MATERIALIZED (
    SELECT x.tenant_id, x.id FROM held s CROSS JOIN LATERAL (
        SELECT d.tenant_id, d.id FROM eventhook.delivery d
        WHERE d.destination_id = s.id AND d.due_at <= @now AND d.due_at <= s.oldest AND d.status <> 'acquired' AND (d.restarted_at <= s.oldest) IS NOT FALSE
        ORDER BY d.due_at LIMIT @limit FOR UPDATE SKIP LOCKED) x
), waiting AS MATERIALIZED (
    SELECT x.tenant_id, x.id FROM held s CROSS JOIN LATERAL (
        SELECT d.tenant_id, d.id FROM eventhook.delivery d
        WHERE d.destination_id = s.id AND d.due_at = 'infinity' AND (d.restarted_at <= s.oldest) IS NOT FALSE
          AND d.id < (lpad(to_hex((extract(epoch FROM s.oldest) * 1000)::int8), 12, '0') || repeat('0', 20))::uuid
        LIMIT @limit FOR UPDATE SKIP LOCKED) x
), due AS (
    SELECT tenant_id, id FROM first UNION ALL SELECT tenant_id, id FROM waiting
)` + markDeadSQL
