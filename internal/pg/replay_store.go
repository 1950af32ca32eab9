package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// insertReplaySQL creates a replay, unless the same one is running. Index replay_request.
const insertReplaySQL = `
INSERT INTO eventhook.replay AS r (id, tenant_id, subscription_id, kind, since, until, statuses, event_types, missing, max_count, request_hash,
    estimated, due_at, created_at)
VALUES (@id, @tenant, @subscription, 'replay', @since, @until, @statuses, @event_types, @missing, NULLIF(@max_count::bigint, 0), @hash, @estimated, @now, @now)
ON CONFLICT (subscription_id, request_hash) WHERE status = 'running' AND request_hash IS NOT NULL DO NOTHING
RETURNING ` + replayColumns

// runningReplaySQL finds the running replay of a request. Index replay_request.
const runningReplaySQL = `
SELECT ` + replayColumns + ` FROM eventhook.replay r WHERE r.subscription_id = $1 AND r.request_hash = $2 AND r.status = 'running'`

// countReplaysSQL counts the running replays of a subscription. Index replay_subscription.
const countReplaysSQL = `SELECT count(*) FROM eventhook.replay WHERE subscription_id = $1 AND status = 'running' AND kind = 'replay'`

// replayRecord is the part of a replay that audit entries show.
type replayRecord struct {
	ReplayID   eventhook.ReplayID         `json:"replay_id"`
	Since      time.Time                  `json:"since"`
	Until      time.Time                  `json:"until"`
	Statuses   []eventhook.DeliveryStatus `json:"status"`
	EventTypes []string                   `json:"event_types,omitempty"`
	Missing    bool                       `json:"missing,omitempty"`
	Limit      int                        `json:"limit,omitempty"`
}

// CreateReplay starts a replay of a subscription, which the caller has read and whose request
// is valid. If a replay of the same request is running, it returns that replay instead. The
// error is KindConflict if MaxRunningReplays other replays are running, and KindNotFound if
// the subscription was deleted.
func (db *DB) CreateReplay(ctx context.Context, by eventhook.Actor, of eventhook.Subscription,
	r eventhook.Replay) (created eventhook.Replay, err error) {
	hash := r.ReplayRequest.Hash()
	r.ReplayRequest = r.Normalized()
	err = db.mutate(ctx, "create replay", by, of.TenantID, func(m *mutation) error {
		created, err = scanReplay(m.tx.QueryRow(ctx, runningReplaySQL, [16]byte(of.ID), hash[:]))
		if err == nil || !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		created, err = m.insertReplay(ctx, of, r, hash[:])
		return err
	})
	if hasCode(err, codeForeignKey) {
		return created, eventhook.NotFound("subscription")
	}
	if err == nil {
		db.hub.wake(replaysTopic)
	}
	return created, err
}

func (m *mutation) insertReplay(ctx context.Context, of eventhook.Subscription, r eventhook.Replay,
	hash []byte) (created eventhook.Replay, err error) {
	var running int
	if err := m.tx.QueryRow(ctx, countReplaysSQL, [16]byte(of.ID)).Scan(&running); err != nil {
		return created, err
	}
	if running >= eventhook.MaxRunningReplays {
		return created, &eventhook.Error{Kind: eventhook.KindConflict, Message: fmt.Sprintf(
			"The subscription has %d running replays, the maximum: wait until one of them ends, or cancel one.", running)}
	}
	now := m.db.now()
	if r.Until.IsZero() || r.Until.After(now) {
		r.Until = now
	}
	created, err = scanReplay(m.tx.QueryRow(ctx, insertReplaySQL,
		pgx.StrictNamedArgs{"id": [16]byte(eventhook.NewID[eventhook.Replay](now)),
			"tenant": [16]byte(m.tenant.ID), "subscription": [16]byte(of.ID), "since": r.Since, "until": r.Until, "statuses": r.Statuses,
			"event_types": nonNil(r.EventTypes), "missing": r.Missing, "max_count": r.Limit, "hash": hash, "estimated": r.Estimated,
			"now": now}))
	if errors.Is(err, pgx.ErrNoRows) { // created concurrently, and committed by now
		return scanReplay(m.tx.QueryRow(ctx, runningReplaySQL, [16]byte(of.ID), hash))
	}
	if err == nil {
		_, err = m.record("subscription.replayed", resourceOfSubscription(of), nil,
			replayRecord{created.ID, created.Since, created.Until, created.Statuses, created.EventTypes, created.Missing, created.Limit})
	}
	return created, err
}

// nonNil returns an empty list for nil, since the column has no NULL.
func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// listReplaysSQL lists replays. Index replay_subscription.
const listReplaysSQL = `
SELECT ` + replayColumns + ` FROM eventhook.replay r
WHERE r.subscription_id = $2 AND r.id < $3 AND (r.tenant_id = $1) IS TRUE AND ($4 = '' OR r.status = $4)
  AND r.created_at > $6 AND (r.kind <> 'recovery' OR r.since > $6)
ORDER BY r.id DESC LIMIT $5`

// Replays lists the replays of one of a tenant's subscriptions, newest first.
func (db *DB) Replays(ctx context.Context, tenant eventhook.TenantID, f eventhook.ReplayFilter) ([]eventhook.Replay, error) {
	rows, err := db.lists.Query(ctx, listReplaysSQL, [16]byte(tenant), [16]byte(f.SubscriptionID), cursorArg(f.Before),
		string(f.Status), f.Limit, f.CreatedAfter)
	if err != nil {
		return nil, translate("list replays", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (eventhook.Replay, error) { return scanReplay(row) })
	return list, translate("list replays", err)
}

const findReplaySQL = `SELECT ` + replayColumns + ` FROM eventhook.replay r WHERE r.id = $1 AND r.subscription_id = $2 AND (r.tenant_id = $3) IS TRUE`

// Replay returns a replay of one of a tenant's subscriptions, or KindNotFound. Primary key.
func (db *DB) Replay(ctx context.Context, tenant eventhook.TenantID, of eventhook.SubscriptionID,
	id eventhook.ReplayID) (eventhook.Replay, error) {
	r, err := scanReplay(db.lists.QueryRow(ctx, findReplaySQL, [16]byte(id), [16]byte(of), [16]byte(tenant)))
	return r, translate("read replay", notFound(err, "replay"))
}

// CancelReplay ends a running replay of a subscription, which the caller has read: it queues no more deliveries. The error is KindConflict
// if it has ended, and KindNotFound if it does not exist.
func (db *DB) CancelReplay(ctx context.Context, by eventhook.Actor, of eventhook.Subscription,
	id eventhook.ReplayID) (r eventhook.Replay, err error) {
	find := func(m *mutation, lock string) (eventhook.Replay, error) {
		return scanReplay(m.tx.QueryRow(ctx, findReplaySQL+lock, [16]byte(id), [16]byte(of.ID), [16]byte(of.TenantID)))
	}
	defer func() {
		if err == nil {
			db.observer.ReplayEnded(eventhook.ReplayCancelled)
		}
	}()
	err = db.mutate(ctx, "cancel replay", by, of.TenantID, func(m *mutation) error {
		r, err = find(m, ` FOR UPDATE`)
		if err != nil {
			return notFound(err, "replay")
		}
		if r.Status != eventhook.ReplayRunning {
			return &eventhook.Error{Kind: eventhook.KindConflict, Message: fmt.Sprintf("The replay is %s.", r.Status)}
		}
		now := db.now()
		if _, err := m.tx.Exec(ctx, countReplaySQL, [16]byte(id), now); err != nil {
			return err
		}
		_, err = m.tx.Exec(ctx, `UPDATE eventhook.replay SET status = 'cancelled', due_at = NULL, finished_at = $2 WHERE id = $1`,
			[16]byte(id), now)
		if err != nil {
			return err
		}
		m.recordChanges("subscription.replay_cancelled", resourceOfSubscription(of),
			[]eventhook.FieldChange{{Field: "replay_id", From: []byte("null"), To: []byte(`"` + id.String() + `"`)}})
		r, err = find(m, "")
		return err
	})
	return r, err
}

// sweepReplaysSQL deletes old replays that have ended. Primary key.
const sweepReplaysSQL = `
DELETE FROM eventhook.replay WHERE id = ANY (ARRAY(
    SELECT id FROM eventhook.replay WHERE id < $1 AND status <> 'running' ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED))`

// SweepReplays deletes up to 1,000 replays that have ended and were created longer than keep
// ago, and returns their number. If keep is 0, it deletes none.
func (db *DB) SweepReplays(ctx context.Context, keep time.Duration) (int, error) {
	if keep <= 0 {
		return 0, nil
	}
	tag, err := db.work.Exec(ctx, sweepReplaysSQL, [16]byte(eventhook.FirstID[eventhook.Replay](db.now().Add(-keep))))
	return int(tag.RowsAffected()), translate("sweep replays", err)
}
