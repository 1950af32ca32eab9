package pg

import "strconv"

// The statements of what needs a person return a row for each item: the tenant, the id and the name
// of the resource, a count, since when, and a reason. They have the parameters of a window, and
// @tenant (NULL: all tenants), @now and @limit.

// overviewMissed bounds the missed deliveries of a subscription in an overview.
const overviewMissed = 1000

// failingSQL selects failing subscriptions with their missed deliveries and the error of the newest
// delivery that failed or is dead. Indexes delivery_due and delivery_destination_status.
func failingSQL(where string) string {
	limit := strconv.Itoa(overviewMissed)
	return `
SELECT s.tenant_id, s.id::text, s.name, o.n + d.n, coalesce(h.failing_since, s.updated_at),
    coalesce(nullif(failed.last_error, ''), nullif(dead.last_error, ''), s.disabled_reason, '')
FROM eventhook.tenant t JOIN eventhook.subscription s ON s.tenant_id = t.id
LEFT JOIN eventhook.subscription_health h ON h.subscription_id = s.id
CROSS JOIN LATERAL (SELECT count(*) AS n FROM (
    SELECT FROM eventhook.delivery d WHERE d.destination_id = s.id AND d.due_at IS NOT NULL LIMIT ` + limit + `) o) o
CROSS JOIN LATERAL (SELECT count(*) AS n FROM (
    SELECT FROM eventhook.delivery d WHERE d.destination_id = s.id AND d.status = 'dead' AND d.status IN ('failed', 'dead')
      AND d.completed_at >= h.failing_since - interval '5 minutes' AND d.recoveries < 3 LIMIT ` + limit + `) d) d
LEFT JOIN LATERAL (
    SELECT d.last_error FROM eventhook.delivery d WHERE d.destination_id = s.id AND d.status = 'failed' AND d.status IN ('failed', 'dead')
    ORDER BY d.id DESC LIMIT 1) failed ON true
LEFT JOIN LATERAL (
    SELECT d.last_error FROM eventhook.delivery d WHERE d.destination_id = s.id AND d.status = 'dead' AND d.status IN ('failed', 'dead')
    ORDER BY d.id DESC LIMIT 1) dead ON true
WHERE` + ofTenants + ` AND ` + where + ` ORDER BY 5, s.id LIMIT @limit`
}

var (
	disabledSQL = failingSQL(`s.disabled_by IN ('failures', 'gone')`)
	circuitSQL  = failingSQL(`s.disabled_by IS NULL AND h.failing_since IS NOT NULL`)
)

// deadDeliveriesSQL counts the deliveries of tenants that became dead in the window and still are, with
// the error of the newest. If the newest 1000 of a tenant are among them, it counts all that became dead in
// the window. Index delivery_status.
const deadDeliveriesSQL = `
SELECT t.id, '', '', CASE WHEN d.n < 1000 THEN d.n ELSE u.n END AS n, u.since, d.error
FROM eventhook.tenant t
CROSS JOIN LATERAL (SELECT sum(u.dead)::int8 AS n, min(u.at) FILTER (WHERE u.dead > 0) AS since FROM eventhook.traffic u
    WHERE u.tenant_id = t.id AND u.resource_id = t.id AND` + trafficOfWindow + `) u
JOIN LATERAL (
    SELECT count(*) AS n, coalesce((array_agg(d.last_error ORDER BY d.id DESC))[1], '') AS error
    FROM (SELECT id, completed_at, last_error FROM eventhook.delivery
        WHERE tenant_id = t.id AND status = 'dead' AND status IN ('failed', 'dead') ORDER BY id DESC LIMIT 1000) d
    WHERE d.completed_at >= @since) d ON u.n > 0
WHERE` + ofTenants + ` AND d.n > 0 ORDER BY 4 DESC, t.id LIMIT @limit`

// deadExecutionsSQL counts, among the newest 1000 dead executions of each tenant, those that died
// in the window. Index execution_status.
const deadExecutionsSQL = `
SELECT t.id, e.id, e.kind, e.n, e.since, e.error
FROM eventhook.tenant t CROSS JOIN LATERAL (
    SELECT count(*) AS n, min(completed_at) AS since, coalesce((array_agg(error ORDER BY id DESC))[1], '') AS error,
        CASE count(*) WHEN 1 THEN min(id::text) ELSE '' END AS id, CASE count(DISTINCT kind) WHEN 1 THEN min(kind) ELSE '' END AS kind
    FROM (SELECT id, kind, completed_at, error FROM eventhook.execution
        WHERE tenant_id = t.id AND status = 'dead' AND status IN ('running', 'failed', 'dead', 'suspended', 'cancelled') AND input_size >= 0
        ORDER BY id DESC LIMIT 1000) e
    WHERE completed_at >= @since) e
WHERE` + ofTenants + ` AND e.n > 0 ORDER BY e.n DESC, t.id LIMIT @limit`

// offlineAgentsSQL selects agents without a claim for 90 s that hold deliveries. Index delivery_held.
const offlineAgentsSQL = `
SELECT a.tenant_id, a.id::text, a.name, h.n, a.last_seen_at, ''
FROM (SELECT d.tenant_id, d.acquired_by, count(*) AS n FROM eventhook.delivery d
    WHERE d.agent_leases IS NOT NULL AND d.status = 'acquired' AND (@tenant::uuid IS NULL OR d.tenant_id = @tenant)
    GROUP BY d.tenant_id, d.acquired_by) h
JOIN eventhook.agent a ON a.id = h.acquired_by JOIN eventhook.tenant t ON t.id = a.tenant_id
WHERE` + ofTenants + ` AND (a.last_seen_at > @now::timestamptz - interval '90 seconds') IS NOT TRUE ORDER BY h.n DESC, a.id LIMIT @limit`

// usedQuotasSQL selects tenants that have used more than nine tenths of a quota. The count is the
// used percentage. Primary keys.
const usedQuotasSQL = `
SELECT x.id, x.slug, x.name, floor(100 * x.used)::int8, NULL, x.quota
FROM (
    SELECT t.id, t.slug, t.name, q.*
    FROM eventhook.tenant t
    CROSS JOIN LATERAL (SELECT coalesce(sum(u.events) FILTER (WHERE u.day = (@now::timestamptz AT TIME ZONE 'UTC')::date), 0) AS events,
        coalesce(sum(u.bytes), 0) AS bytes FROM eventhook.tenant_usage u WHERE u.tenant_id = t.id) u
    CROSS JOIN LATERAL (VALUES ('max_events_per_day', u.events / nullif(t.max_events_per_day, 0)),
        ('max_storage_bytes', u.bytes / nullif(t.max_storage_bytes, 0))) q (quota, used)
    WHERE` + ofTenants + ` AND (t.max_events_per_day IS NOT NULL OR t.max_storage_bytes IS NOT NULL)) x
WHERE x.used > 0.9 ORDER BY x.used DESC, x.id LIMIT @limit`

// refusingSourcesSQL counts the refused requests of sources in the window, with the most frequent of
// the reasons that occurred in it. Index source_tenant, then primary keys.
const refusingSourcesSQL = `
SELECT s.tenant_id, s.slug, s.name, u.n, u.since, coalesce((
    SELECT c.reason FROM eventhook.rejection_count c WHERE c.source_id = s.id AND c.last_at >= @since ORDER BY c.count DESC, c.reason LIMIT 1), '')
FROM eventhook.tenant t JOIN eventhook.source s ON s.tenant_id = t.id
CROSS JOIN LATERAL (SELECT sum(u.refused)::int8 AS n, min(u.at) FILTER (WHERE u.refused > 0) AS since FROM eventhook.traffic u
    WHERE u.tenant_id = s.tenant_id AND u.resource_id = s.id AND` + trafficOfWindow + `) u
WHERE` + ofTenants + ` AND u.n > 0 ORDER BY u.n DESC, s.id LIMIT @limit`

// expiringKeysSQL selects keys that expire within 7 days. Index api_key_tenant.
const expiringKeysSQL = `
SELECT k.tenant_id, k.id::text, k.name, 0::int8, k.expires_at, ''
FROM eventhook.tenant t JOIN eventhook.api_key k ON k.tenant_id = t.id
WHERE` + ofTenants + ` AND k.expires_at > @now AND k.expires_at < @now::timestamptz + interval '7 days' ORDER BY k.expires_at, k.id LIMIT @limit`

// unrevealedSQL selects sources whose secret was received by a handshake and not revealed.
// Index source_tenant, then primary keys.
const unrevealedSQL = `
SELECT s.tenant_id, s.slug, s.name, 0::int8, l.learned_at, s.provider
FROM eventhook.tenant t JOIN eventhook.source s ON s.tenant_id = t.id JOIN eventhook.learned_secret l ON l.source_id = s.id
WHERE` + ofTenants + ` AND l.revealed_at IS NULL ORDER BY l.learned_at, s.id LIMIT @limit`
