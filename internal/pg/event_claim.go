package pg

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// claimEventsSQL leases due events, oldest first, and skips events that another instance
// is claiming. It picks them in a WITH that is MATERIALIZED, which runs once in any plan,
// so that the limit holds. It stops when their bodies have $4 bytes, which bounds the
// memory. An event that is processing and due has lost its
// lease, which lost_leases counts. Index event_due, then primary key
// in one partition each, and the primary key of the source for its slug.
const claimEventsSQL = `
WITH due AS MATERIALIZED (
    SELECT tenant_id, id, body_size FROM eventhook.event WHERE due_at <= $1 ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED
), c AS MATERIALIZED (
    SELECT tenant_id, id FROM (
        SELECT tenant_id, id, sum(body_size::bigint) OVER (ROWS UNBOUNDED PRECEDING) - body_size AS before FROM due) d
    WHERE before < $4
)
UPDATE eventhook.event e
SET status = 'processing', due_at = $3, lease_token = e.lease_token + 1,
    lost_leases = e.lost_leases + CASE e.status WHEN 'processing' THEN 1 ELSE 0 END
FROM c
WHERE e.tenant_id = c.tenant_id AND e.id = c.id
RETURNING e.id, e.tenant_id, e.source_id, e.lease_token, e.lost_leases, e.retry_count, e.body_size, e.origin, e.event_type, e.content_type,
    coalesce(e.idempotency_key, ''), coalesce(e.source_ip, ''), coalesce(e.trace_id, ''), coalesce(e.request_id, ''), coalesce(e.correlation_id, ''),
    coalesce((SELECT slug FROM eventhook.source s WHERE s.id = e.source_id), ''), e.reprocessed_from, e.rerouted_at IS NOT NULL`

// readPayloadsSQL reads payloads. It uses a join instead of ANY of an array, so that each
// id is looked up in its own partition only. Primary key.
const readPayloadsSQL = `SELECT p.event_id, p.headers, p.body
FROM unnest($1::uuid[]) AS u (id) JOIN eventhook.event_payload p ON p.event_id = u.id`

// maxClaimBytes limits the bodies of one claim. The last body may exceed it.
const maxClaimBytes = 32 << 20

// ClaimEvents leases up to limit due events, with their payloads, until now + lease. It
// returns fewer if their bodies are large. Until their leases end, other claims do not
// return these events. Bodies past their retention are nil. ClaimEvents returns no
// events while the instance is not fit; see Fit.
func (db *DB) ClaimEvents(ctx context.Context, limit int, lease time.Duration) ([]*eventhook.Event, error) {
	if db.Fit() != nil {
		return nil, nil //nolint:nilerr // actions that need a secret would fail here and succeed on another instance
	}
	now := db.now()
	until := now.Add(lease)
	rows, err := db.work.Query(ctx, claimEventsSQL, now, limit, until, maxClaimBytes)
	if err != nil {
		return nil, translate("claim events", err)
	}
	events, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (*eventhook.Event, error) {
		e := &eventhook.Event{Status: eventhook.EventProcessing, Lease: eventhook.Lease{Until: until}}
		var source, reprocessed *[16]byte
		var origin string
		err := r.Scan((*[16]byte)(&e.ID), (*[16]byte)(&e.TenantID), &source, &e.Lease.Token, &e.LostLeases, &e.RetryCount, &e.BodySize, &origin,
			&e.EventType, &e.ContentType, &e.IdempotencyKey, &e.SourceIP, &e.TraceID, &e.RequestID, &e.CorrelationID, &e.SourceSlug,
			&reprocessed, &e.IsReprocessed)
		e.Origin = eventhook.Origin(origin)
		if reprocessed != nil {
			e.ReprocessedFrom = *reprocessed
		}
		if source != nil {
			e.SourceID = *source
		}
		return e, err
	})
	if err != nil || len(events) == 0 {
		return nil, translate("claim events", err)
	}
	return events, db.readPayloads(ctx, events)
}

func (db *DB) readPayloads(ctx context.Context, events []*eventhook.Event) error {
	ids := make([]eventhook.EventID, len(events))
	for i, e := range events {
		ids[i] = e.PayloadID()
	}
	payloads, err := db.Payloads(ctx, ids)
	for _, e := range events {
		e.Payload = payloads[e.PayloadID()]
	}
	return err
}

const releaseEventsSQL = `
UPDATE eventhook.event e SET status = 'pending', due_at = u.due_at
FROM unnest($1::uuid[], $2::uuid[], $3::int8[], $4::timestamptz[]) AS u (tenant_id, id, lease_token, due_at)
WHERE e.tenant_id = u.tenant_id AND e.id = u.id AND e.lease_token = u.lease_token AND e.status = 'processing' AND e.due_at IS NOT NULL`

// ReleaseEvents ends the leases of events. Each event is due again at its NextRetryAt, or
// now if that is nil. A released lease does not count as lost. Events whose lease was lost
// do not change.
func (db *DB) ReleaseEvents(ctx context.Context, events []*eventhook.Event) error {
	events = slices.Clone(events)
	slices.SortFunc(events, func(x, y *eventhook.Event) int { return bytes.Compare(x.ID[:], y.ID[:]) }) // the order in which SettleEvents locks them
	now := db.now()
	tenants, ids, tokens := make([][16]byte, len(events)), make([][16]byte, len(events)), make([]int64, len(events))
	due := make([]time.Time, len(events))
	for i, e := range events {
		tenants[i], ids[i], tokens[i], due[i] = e.TenantID, e.ID, e.Lease.Token, now
		if e.NextRetryAt != nil {
			due[i] = *e.NextRetryAt
		}
	}
	_, err := db.work.Exec(ctx, releaseEventsSQL, tenants, ids, tokens, due)
	return translate("release events", err)
}
