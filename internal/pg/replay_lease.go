package pg

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/replay"
)

var _ replay.Store = (*DB)(nil)

const replayColumns = `r.id, r.tenant_id, r.subscription_id, r.kind, r.status, r.since, r.until, r.statuses, r.event_types, r.missing,
    coalesce(r.max_count, 0), r.estimated, r.matched, r.queued, r.sent, r.failed, r.created_at, r.finished_at`

// scanReplay scans replayColumns and, into more, the columns after them.
func scanReplay(row pgx.Row, more ...any) (r eventhook.Replay, err error) {
	var statuses []string
	err = row.Scan(append([]any{(*[16]byte)(&r.ID), (*[16]byte)(&r.TenantID), (*[16]byte)(&r.SubscriptionID), (*string)(&r.Kind),
		(*string)(&r.Status),
		&r.Since, &r.Until, &statuses, &r.EventTypes, &r.Missing, &r.Limit, &r.Estimated, &r.Matched, &r.Queued, &r.Sent, &r.Failed,
		&r.CreatedAt, &r.FinishedAt}, more...)...)
	for _, s := range statuses {
		r.Statuses = append(r.Statuses, eventhook.DeliveryStatus(s))
	}
	return r, err
}

// ReplaysWake returns a channel that is closed when a replay may have become due on any
// instance. Call it before reading the database, so that no wake-up is lost in between.
func (db *DB) ReplaysWake() <-chan struct{} { return db.hub.wait(replaysTopic) }

// leaseReplaySQL skips replays that another instance is leasing, and the tenants $3. Index
// replay_due.
const leaseReplaySQL = `
WITH due AS MATERIALIZED (
    SELECT id FROM eventhook.replay WHERE due_at <= $1 AND tenant_id <> ALL($3::uuid[]) ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE eventhook.replay r SET due_at = $2, lease_token = r.lease_token + 1
FROM due WHERE r.id = due.id
RETURNING ` + replayColumns + `, r.cursor, r.lease_token, r.released_at, r.counted_at,
    EXISTS (SELECT FROM eventhook.subscription_health h WHERE h.subscription_id = r.subscription_id AND h.failing_since IS NOT NULL)`

const nextReplaySQL = `SELECT min(due_at) FROM eventhook.replay WHERE due_at IS NOT NULL`

// openOfReplaySQL counts the open deliveries of a replay up to $2. Index delivery_released.
const openOfReplaySQL = `
SELECT count(*) FROM (
    SELECT FROM unnest('{pending,acquired,failed}'::text[]) AS s (status) CROSS JOIN LATERAL (
        SELECT FROM eventhook.delivery d WHERE d.released_by = $1 AND d.status = s.status LIMIT $2) d
    LIMIT $2) o`

// readToEnd is the cursor of a replay that has read its last page.
var readToEnd = [16]byte(bytes.Repeat([]byte{0xff}, 16))

// LeaseReplay leases the running replay that has been due for the longest time, of the tenants
// in round robin. Of its queued
// deliveries, it counts the open ones up to replay.MaxOpen+1. If none is due, it returns nil
// and the time at which the next one is due, zero if there is none.
func (db *DB) LeaseReplay(ctx context.Context, lease time.Duration) (job *replay.Job, next time.Time, err error) {
	const act = "lease a replay"
	skipped := db.replayRound.skipped()
	job, err = db.leaseReplay(ctx, lease, skipped)
	if errors.Is(err, pgx.ErrNoRows) && len(skipped) > 0 {
		db.replayRound.begin()
		job, err = db.leaseReplay(ctx, lease, nil)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		var due *time.Time
		if err := db.work.QueryRow(ctx, nextReplaySQL).Scan(&due); err != nil || due == nil {
			return nil, next, translate(act, err)
		}
		return nil, *due, nil
	}
	if err != nil {
		return nil, next, translate(act, err)
	}
	db.replayRound.add(job.TenantID)
	job.Subscription, err = db.Subscription(ctx, job.TenantID, job.SubscriptionID)
	if errors.Is(err, eventhook.ErrNotFound) { // deleted now, with its replays
		return db.LeaseReplay(ctx, lease)
	}
	if err == nil {
		err = db.work.QueryRow(ctx, openOfReplaySQL, [16]byte(job.ID), replay.MaxOpen+1).Scan(&job.Open)
	}
	if err != nil {
		step := replay.Step{Cursor: job.Cursor, IsRead: job.IsRead, DueAt: db.now().Add(releaseDelay)}
		return nil, next, errors.Join(translate(act, err), db.AdvanceReplay(ctx, job, step))
	}
	return job, next, nil
}

// releaseDelay is how long a replay is postponed that was leased but could not be read.
const releaseDelay = 5 * time.Second

func (db *DB) leaseReplay(ctx context.Context, lease time.Duration, skipped []eventhook.TenantID) (*replay.Job, error) {
	now := db.now()
	job := &replay.Job{}
	var cursor *[16]byte
	var released, counted *time.Time
	var err error
	job.Replay, err = scanReplay(db.work.QueryRow(ctx, leaseReplaySQL, now, now.Add(lease), uuids(skipped)), &cursor, &job.LeaseToken,
		&released, &counted, &job.IsFailing)
	if err != nil {
		return nil, err
	}
	if cursor != nil {
		job.Cursor, job.IsRead = *cursor, *cursor == readToEnd
	}
	if released != nil {
		job.ReleasedAt = *released
	}
	if counted != nil {
		job.CountedAt = *counted
	}
	return job, nil
}
