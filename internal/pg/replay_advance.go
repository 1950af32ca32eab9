package pg

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/replay"
)

// insertMissingSQL creates deliveries of stored events, unless they exist. It checks in the
// same transaction that the payload exists; see restartDeliveriesSQL. Primary keys.
const insertMissingSQL = `
INSERT INTO eventhook.delivery (id, tenant_id, destination_id, event_id, event_type, due_at, status, restarted_at, released_by)
SELECT u.id, u.tenant_id, @destination, u.event_id, u.event_type, u.due_at, 'pending', @now, @replay
FROM unnest(@tenants::uuid[], @ids::uuid[], @events::uuid[], @types::text[], @due_at::timestamptz[]) AS u (tenant_id, id, event_id, event_type, due_at)
WHERE EXISTS (SELECT FROM eventhook.event e JOIN eventhook.event_payload p ON p.event_id = coalesce(e.payload_of, e.id)
    WHERE e.tenant_id = u.tenant_id AND e.id = u.event_id)
ON CONFLICT DO NOTHING`

// advanceReplaySQL writes the progress of a replay if the lease is still valid. Lock order:
// deliveries, then the replay. Primary key.
const advanceReplaySQL = `
UPDATE eventhook.replay r
SET cursor = @cursor, matched = r.matched + @matched, queued = r.queued + @queued, due_at = CASE WHEN @status = 'running' THEN @due_at::timestamptz END,
    status = @status, finished_at = CASE WHEN @status = 'running' THEN NULL ELSE @now::timestamptz END,
    released_at = CASE WHEN @queued > 0 THEN @now ELSE r.released_at END
WHERE r.id = @id AND r.lease_token = @lease_token AND r.status = 'running'`

// countReplaySQL counts the deliveries that a replay queued and that have ended. Index
// delivery_released.
const countReplaySQL = `
UPDATE eventhook.replay r SET sent = c.sent, failed = c.failed, counted_at = $2
FROM (SELECT count(*) FILTER (WHERE s.status = 'success') AS sent, count(*) FILTER (WHERE s.status = 'dead') AS failed
    FROM unnest('{success,dead}'::text[]) AS s (status)
    CROSS JOIN LATERAL (SELECT FROM eventhook.delivery d WHERE d.released_by = $1 AND d.status = s.status) d) c
WHERE r.id = $1`

// errReplayLost rolls back a step whose lease was lost.
var errReplayLost = errors.New("the lease of the replay was lost")

// AdvanceReplay writes the result of a step in one transaction, and ends the lease: it queues
// deliveries, moves the cursor and counts. It changes nothing if the lease was lost, or if the
// replay has ended or was deleted. Then it wakes the dispatchers.
func (db *DB) AdvanceReplay(ctx context.Context, job *replay.Job, step replay.Step) error {
	var queued int
	var recovery announced
	err := db.inTx(ctx, "advance a replay", func(tx pgx.Tx) (err error) {
		if queued, err = db.queueReplayed(ctx, tx, job, step.Queue); err != nil {
			return err
		}
		if err := db.storeStep(ctx, tx, job, step, queued); err != nil {
			return err
		}
		if step.Counts {
			if _, err := tx.Exec(ctx, countReplaySQL, [16]byte(job.ID), db.now()); err != nil {
				return err
			}
		}
		if step.End != "" && job.Kind == eventhook.ReplayRecovery {
			if err := db.endRecovery(ctx, tx, job, step.End, job.Queued+int64(queued)); err != nil {
				return err
			}
		}
		recovery, err = db.announceRecovery(ctx, tx, job, step, queued)
		return err
	})
	if errors.Is(err, errReplayLost) {
		return nil
	}
	if err != nil {
		return err
	}
	if step.End != "" {
		db.observer.ReplayEnded(step.End)
	}
	db.notifyAnnounced(recovery)
	if queued > 0 {
		db.WakeDeliveries()
	}
	return nil
}

// recoveryProgress is the data of webhook.recovering and webhook.recovered.
type recoveryProgress struct {
	Subscription announcedObject `json:"subscription"`
	Since        time.Time       `json:"since"` // of the outage
	Until        time.Time       `json:"until"`
	Queued       int64           `json:"queued"` // deliveries that the recovery has queued so far
	Sent         int64           `json:"sent"`
	Failed       int64           `json:"failed"`
}

// announceRecovery publishes webhook.recovering when a recovery queues its first deliveries,
// and webhook.recovered when they have ended.
func (db *DB) announceRecovery(ctx context.Context, tx pgx.Tx, job *replay.Job, step replay.Step, queued int) (announced, error) {
	kind, data := "webhook.recovering", recoveryProgress{Subscription: announcedObject{"subscription", job.SubscriptionID.String(),
		job.Subscription.Name},
		Since: job.Since.UTC(), Until: job.Until.UTC(), Queued: job.Queued + int64(queued)}
	switch {
	case job.Kind != eventhook.ReplayRecovery || data.Queued == 0:
		return announced{}, nil
	case step.End != "":
		kind = "webhook.recovered"
		if err := tx.QueryRow(ctx, `SELECT sent, failed FROM eventhook.replay WHERE id = $1`, [16]byte(job.ID)).Scan(&data.Sent,
			&data.Failed); err != nil {
			return announced{}, err
		}
	case job.Queued > 0:
		return announced{}, nil
	}
	body, err := json.Marshal(data)
	if err != nil {
		return announced{}, err
	}
	return db.announceIn(ctx, tx, []*eventhook.Event{newSystemEvent(job.TenantID, kind, body)}, nil)
}

// storeStep returns errReplayLost if the lease was lost.
func (db *DB) storeStep(ctx context.Context, tx pgx.Tx, job *replay.Job, step replay.Step, queued int) error {
	status := eventhook.ReplayRunning
	if step.End != "" {
		status = step.End
	}
	cursor := &step.Cursor
	if step.IsRead {
		cursor = &readToEnd
	} else if step.Cursor == ([16]byte{}) {
		cursor = nil
	}
	tag, err := tx.Exec(ctx, advanceReplaySQL, pgx.StrictNamedArgs{"id": [16]byte(job.ID), "lease_token": job.LeaseToken, "cursor": cursor,
		"matched": step.Matched, "queued": queued, "due_at": step.DueAt, "status": string(status), "now": db.now()})
	if err == nil && tag.RowsAffected() == 0 {
		return errReplayLost
	}
	return err
}

// queueReplayed restarts the deliveries that exist, creates the missing ones, and returns the
// number of both.
func (db *DB) queueReplayed(ctx context.Context, tx pgx.Tx, job *replay.Job, list []*eventhook.Delivery) (queued int, err error) {
	if len(list) == 0 {
		return 0, nil
	}
	now := db.now()
	r := restart{now: now, statuses: restartableStatuses(job.Statuses), job: job}
	m := missing{}
	var ordered []*eventhook.Delivery
	for i, d := range list {
		due := dueAt(job, d, now, i)
		if d.Status != "" {
			r.rows, r.dueAt = append(r.rows, rowKey{d.TenantID, d.ID}), append(r.dueAt, due)
			continue
		}
		if isOrdered(d) {
			ordered = append(ordered, d)
			continue
		}
		m.add(d, due)
	}
	restarted, _, err := restartInTx(ctx, tx, r)
	if err != nil {
		return 0, err
	}
	created, err := insertMissingOrdered(ctx, tx, job, ordered, now)
	queued = len(restarted) + created
	if err != nil || len(m.ids) == 0 {
		return queued, err
	}
	tag, err := tx.Exec(ctx, insertMissingSQL, pgx.StrictNamedArgs{"destination": [16]byte(job.SubscriptionID),
		"replay": [16]byte(job.ID), "now": now, "tenants": m.tenants, "ids": m.ids, "events": m.events, "types": m.types,
		"due_at": m.dueAt})
	return queued + int(tag.RowsAffected()), err
}

// precedeOrderSQL moves deliveries that the transaction has created before all deliveries that
// wait, and keeps their order. Primary key.
const precedeOrderSQL = `
UPDATE eventhook.delivery d SET order_seq = d.order_seq - 4611686018427387904, restarted_at = @now, released_by = @replay
FROM unnest(@tenants::uuid[], @ids::uuid[]) AS u (tenant_id, id)
WHERE d.tenant_id = u.tenant_id AND d.id = u.id AND d.order_seq > 0 AND d.restarted_at IS NULL AND d.xmin = pg_current_xact_id()::xid`

// insertMissingOrdered creates ordered deliveries of stored events, unless they exist, and
// returns their number.
func insertMissingOrdered(ctx context.Context, tx pgx.Tx, job *replay.Job, list []*eventhook.Delivery,
	now time.Time) (created int, err error) {
	if len(list) == 0 {
		return 0, nil
	}
	tenants, ids := make([][16]byte, len(list)), make([][16]byte, len(list))
	for i, d := range list {
		tenants[i], ids[i] = d.TenantID, d.ID
	}
	if err := insertOrdered(ctx, tx, list, now); err != nil {
		return 0, err
	}
	tag, err := tx.Exec(ctx, precedeOrderSQL, pgx.StrictNamedArgs{"tenants": tenants, "replay": [16]byte(job.ID), "now": now, "ids": ids})
	return int(tag.RowsAffected()), err
}

// missing has the columns of deliveries that are created.
type missing struct {
	tenants, ids, events [][16]byte
	types                []string
	dueAt                []time.Time
}

func (m *missing) add(d *eventhook.Delivery, due time.Time) {
	m.tenants, m.ids, m.events = append(m.tenants, d.TenantID), append(m.ids, d.ID), append(m.events, d.EventID)
	m.types, m.dueAt = append(m.types, d.EventType), append(m.dueAt, due)
}

// dueAt returns when the n-th delivery of a step is due. Claims take the deliveries that were
// due first: recovered deliveries by the time of their events, before all newer deliveries of
// the destination; replayed ones in their order, after the deliveries that wait already.
func dueAt(job *replay.Job, d *eventhook.Delivery, now time.Time, n int) time.Time {
	if job.Kind == eventhook.ReplayRecovery {
		return d.EventID.Time()
	}
	return now.Add(time.Duration(n) * time.Microsecond)
}

// deleteRecoverySQL deletes a recovery. Primary key.
const deleteRecoverySQL = `DELETE FROM eventhook.replay WHERE id = $1`

// endRecovery records the end of a recovery. It deletes a completed one that has queued
// nothing: a receiver that fails only for one instance ends outages often. The transaction has
// written the final counts.
func (db *DB) endRecovery(ctx context.Context, tx pgx.Tx, job *replay.Job, status eventhook.ReplayStatus, queued int64) error {
	if status == eventhook.ReplayCompleted && queued == 0 {
		_, err := tx.Exec(ctx, deleteRecoverySQL, [16]byte(job.ID))
		return err
	}
	entry := eventhook.AuditEntry{TenantID: job.TenantID, Action: "subscription.recovered", ResourceType: "subscription",
		ResourceID: job.SubscriptionID.String(), ResourceName: job.Subscription.Name}
	return db.insertAudit(ctx, tx, gatewayActor, []eventhook.AuditEntry{entry})
}
