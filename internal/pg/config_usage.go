package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// addTenantCountsSQL and the next two statements add counts in the order of their keys, so
// that instances that share a slot wait for each other and cannot deadlock. Primary keys; rows
// that exist change in place (HOT).
const addTenantCountsSQL = `
INSERT INTO eventhook.tenant_usage AS u (tenant_id, day, slot, events, bytes)
SELECT tenant_id, day, $1::int2, events, bytes
FROM unnest($2::uuid[], $3::date[], $4::int8[], $5::int8[]) AS n (tenant_id, day, events, bytes)
ORDER BY tenant_id, day
ON CONFLICT (tenant_id, day, slot) DO UPDATE
    SET events = u.events + excluded.events, bytes = u.bytes + excluded.bytes`

const addSourceCountsSQL = `
INSERT INTO eventhook.source_usage AS u (source_id, at, slot, events, failed)
SELECT source_id, at, $1::int2, events, failed
FROM unnest($2::uuid[], $3::timestamptz[], $4::int8[], $5::int8[]) AS n (source_id, at, events, failed)
ORDER BY source_id, at
ON CONFLICT (source_id, at, slot) DO UPDATE
    SET events = u.events + excluded.events, failed = u.failed + excluded.failed`

const addSubscriptionCountsSQL = `
INSERT INTO eventhook.subscription_usage AS u (subscription_id, at, slot, delivered, failed, dead, duration_ms)
SELECT subscription_id, at, @slot::int2, delivered, failed, dead, duration_ms
FROM unnest(@subscriptions::uuid[], @spans::timestamptz[], @delivered::int8[], @failed::int8[], @dead::int8[], @durations::int8[])
    AS n (subscription_id, at, delivered, failed, dead, duration_ms)
ORDER BY subscription_id, at
ON CONFLICT (subscription_id, at, slot) DO UPDATE
    SET delivered = u.delivered + excluded.delivered, failed = u.failed + excluded.failed, dead = u.dead + excluded.dead,
        duration_ms = u.duration_ms + excluded.duration_ms`

// AddTenantCounts adds counts to the counts of a slot. If it fails, it adds no count. A pair of
// tenant and day may occur once.
func (db *DB) AddTenantCounts(ctx context.Context, slot int, counts []eventhook.TenantCount) error {
	n := len(counts)
	tenants, days := make([][16]byte, n), make([]time.Time, n)
	events, bytes := make([]int64, n), make([]int64, n)
	for i, c := range counts {
		tenants[i], days[i], events[i], bytes[i] = c.TenantID, c.Day, c.Events, c.Bytes
	}
	_, err := db.work.Exec(ctx, addTenantCountsSQL, slot, tenants, days, events, bytes)
	return translate("count stored events of tenants", err)
}

// AddSourceCounts adds counts to the counts of a slot. If it fails, it adds no count. A pair of
// source and time span may occur once. Counts of deleted sources are accepted.
func (db *DB) AddSourceCounts(ctx context.Context, slot int, counts []eventhook.SourceCount) error {
	n := len(counts)
	sources, spans := make([][16]byte, n), make([]time.Time, n)
	events, failed := make([]int64, n), make([]int64, n)
	for i, c := range counts {
		sources[i], spans[i], events[i], failed[i] = c.SourceID, c.At, c.Events, c.Failed
	}
	_, err := db.work.Exec(ctx, addSourceCountsSQL, slot, sources, spans, events, failed)
	return translate("count events of sources", err)
}

// AddSubscriptionCounts adds counts to the counts of a slot. If it fails, it adds no count. A pair
// of subscription and time span may occur once. Counts of deleted subscriptions are accepted.
func (db *DB) AddSubscriptionCounts(ctx context.Context, slot int, counts []eventhook.SubscriptionCount) error {
	n := len(counts)
	subscriptions, spans := make([][16]byte, n), make([]time.Time, n)
	delivered, failed, dead, durations := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	for i, c := range counts {
		subscriptions[i], spans[i] = c.SubscriptionID, c.At
		delivered[i], failed[i], dead[i], durations[i] = c.Delivered, c.Failed, c.Dead, c.Duration.Milliseconds()
	}
	_, err := db.work.Exec(ctx, addSubscriptionCountsSQL, pgx.StrictNamedArgs{"slot": slot, "subscriptions": subscriptions, "spans": spans,
		"delivered": delivered, "failed": failed, "dead": dead, "durations": durations})
	return translate("count deliveries of subscriptions", err)
}

// usageBetweenSQL reads a range of the primary key for each tenant.
const usageBetweenSQL = `
SELECT u.tenant_id, sum(u.events)::int8, sum(u.bytes)::int8
FROM unnest($1::uuid[]) AS t (id)
JOIN eventhook.tenant_usage u ON u.tenant_id = t.id AND u.day >= $2::date AND u.day < $3::date
GROUP BY u.tenant_id`

// UsageBetween sums what each tenant stored on the days from (inclusive) to until (exclusive),
// over all slots. Days whose bodies were deleted do not count: a sweep deletes their rows. The
// result omits tenants without usage; Day is not set.
func (db *DB) UsageBetween(ctx context.Context, from, until time.Time, tenants []eventhook.TenantID) (map[eventhook.TenantID]eventhook.TenantCount, error) {
	rows, err := db.work.Query(ctx, usageBetweenSQL, uuids(tenants), from, until)
	if err != nil {
		return nil, translate("read the usage of tenants", err)
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (c eventhook.TenantCount, err error) {
		return c, r.Scan((*[16]byte)(&c.TenantID), &c.Events, &c.Bytes)
	})
	sums := make(map[eventhook.TenantID]eventhook.TenantCount, len(list))
	for _, c := range list {
		sums[c.TenantID] = c
	}
	return sums, translate("read the usage of tenants", err)
}

// tenantUsageSQL reads a range of the primary key for each tenant.
const tenantUsageSQL = `
SELECT u.tenant_id, coalesce(sum(u.events) FILTER (WHERE u.day = $2::date), 0)::int8, sum(u.bytes)::int8
FROM unnest($1::uuid[]) AS t (id) JOIN eventhook.tenant_usage u ON u.tenant_id = t.id
GROUP BY u.tenant_id`

// TenantUsage returns how much of their quotas tenants have used. The result omits tenants
// that have stored nothing.
func (db *DB) TenantUsage(ctx context.Context, tenants []eventhook.TenantID) (map[eventhook.TenantID]eventhook.TenantUsage, error) {
	const act = "read the tenants' usage"
	rows, err := db.lists.Query(ctx, tenantUsageSQL, uuids(tenants), db.now().UTC())
	if err != nil {
		return nil, translate(act, err)
	}
	used := make(map[eventhook.TenantID]eventhook.TenantUsage, len(tenants))
	var id eventhook.TenantID
	var u eventhook.TenantUsage
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &u.EventsToday, &u.StorageBytes}, func() error {
		used[id] = u
		return nil
	})
	return used, translate(act, err)
}

// sourceStatsSQL reads a range of the primary key for each source. $2 and $3
// are a day and an hour ago.
const sourceStatsSQL = `
SELECT u.source_id, coalesce(sum(u.events) FILTER (WHERE u.at >= $3), 0)::int8, sum(u.events)::int8, sum(u.failed)::int8
FROM unnest($1::uuid[]) AS s (id) JOIN eventhook.source_usage u ON u.source_id = s.id AND u.at >= $2
GROUP BY u.source_id`

// SourceStats returns the recent counts of sources. The result omits sources without events.
func (db *DB) SourceStats(ctx context.Context, sources []eventhook.SourceID) (map[eventhook.SourceID]eventhook.SourceStats, error) {
	const act = "read the sources' statistics"
	now := db.now()
	since := func(ago time.Duration) time.Time { return now.Add(-ago).Truncate(eventhook.SourceCountSpan) }
	rows, err := db.lists.Query(ctx, sourceStatsSQL, uuids(sources), since(day), since(time.Hour))
	if err != nil {
		return nil, translate(act, err)
	}
	stats := make(map[eventhook.SourceID]eventhook.SourceStats, len(sources))
	var id eventhook.SourceID
	var s eventhook.SourceStats
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &s.EventsLastHour, &s.EventsLast24h, &s.FailedLast24h}, func() error {
		stats[id] = s
		return nil
	})
	return stats, translate(act, err)
}

// sweepTenantUsageSQL deletes, from a range of pages, the days that are past their retention
// and whose partition of bodies is dropped. TID range scan.
const sweepTenantUsageSQL = `
WITH over AS MATERIALIZED (
    SELECT ctid FROM eventhook.tenant_usage
    WHERE ctid >= $1 AND ctid < $2 AND day < ($3::timestamptz AT TIME ZONE 'UTC')::date
      AND to_regclass('eventhook.event_payload_' || to_char(day, 'YYYYMMDD')) IS NULL
    FOR UPDATE SKIP LOCKED
)
DELETE FROM eventhook.tenant_usage WHERE ctid = ANY(ARRAY(SELECT ctid FROM over))`

// sweepSourceUsageSQL deletes, from a range of pages, the spans that began before a time. TID
// range scan.
const sweepSourceUsageSQL = `
WITH over AS MATERIALIZED (
    SELECT ctid FROM eventhook.source_usage WHERE ctid >= $1 AND ctid < $2 AND at < $3
    FOR UPDATE SKIP LOCKED
)
DELETE FROM eventhook.source_usage WHERE ctid = ANY(ARRAY(SELECT ctid FROM over))`

// sweepSubscriptionUsageSQL is sweepSourceUsageSQL for subscriptions.
const sweepSubscriptionUsageSQL = `
WITH over AS MATERIALIZED (
    SELECT ctid FROM eventhook.subscription_usage WHERE ctid >= $1 AND ctid < $2 AND at < $3
    FOR UPDATE SKIP LOCKED
)
DELETE FROM eventhook.subscription_usage WHERE ctid = ANY(ARRAY(SELECT ctid FROM over))`

// SweepUsage deletes counts that are not used any more from the next part of each table, as
// SweepIdempotencyKeys does: traffic and counts of sources and subscriptions older than 25 hours, and
// counts of tenants for days whose bodies have been dropped. A retention of 0 keeps the
// latter. It returns the number of deleted rows.
func (db *DB) SweepUsage(ctx context.Context, r Retention) (int, error) {
	old := db.now().Add(-25 * time.Hour)
	n, err := db.sweep(ctx, "sweep counts of sources", "source_usage", sweepSourceUsageSQL, &db.sweptSourceUsage, old)
	if err != nil {
		return n, err
	}
	sent, err := db.sweep(ctx, "sweep counts of subscriptions", "subscription_usage", sweepSubscriptionUsageSQL, &db.sweptSubscriptionUsage, old)
	n += sent
	if err == nil {
		var passed int
		passed, err = db.sweep(ctx, "sweep traffic", "traffic", sweepTrafficSQL, &db.sweptTraffic, db.now().Add(-eventhook.TrafficRetention))
		n += passed
	}
	days := r.days("event_payload")
	if err != nil || days <= 0 {
		return n, err
	}
	oldest := db.now().UTC().Truncate(day).AddDate(0, 0, -days)
	more, err := db.sweep(ctx, "sweep counts of tenants", "tenant_usage", sweepTenantUsageSQL, &db.sweptTenantUsage, oldest)
	return n + more, err
}
