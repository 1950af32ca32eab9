package pg

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// reprocessSQL makes events due anew and forgets their retries. Rows that
// somebody else changes at this moment are skipped, so that nobody waits. The
// token grows, since an event may have been settled under the last one. The
// payload is looked for in the same transaction: while it runs, no partition
// that it has read is dropped. Primary keys, one partition each.
const reprocessSQL = `
WITH chosen AS MATERIALIZED (
    SELECT e.tenant_id, e.id
    FROM unnest($2::uuid[]) AS u (id) JOIN eventhook.event e ON e.tenant_id = $1 AND e.id = u.id
    WHERE e.status IN ('failed', 'dead', 'unrouted') AND e.source_id IS NOT NULL
      AND EXISTS (SELECT FROM eventhook.event_payload p WHERE p.event_id = u.id)
    FOR UPDATE OF e SKIP LOCKED
)
UPDATE eventhook.event e
SET status = 'pending', due_at = $3, lease_token = e.lease_token + 1, retry_count = 0, last_error = NULL, processed_at = NULL
FROM chosen c
WHERE e.tenant_id = c.tenant_id AND e.id = c.id
RETURNING e.id`

// ReprocessEvents makes a tenant's events due at once, with all their retries
// before them, and returns their ids, newest first. Actions that have succeeded
// are not done again. Left alone are events in other states than failed, dead
// and unrouted, events that no source has brought, those whose payload is past
// its retention, and those that somebody is changing at this moment. It is one
// transaction, in which it is recorded too.
func (db *DB) ReprocessEvents(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, which eventhook.EventSelection) ([]eventhook.EventID, error) {
	const act = "reprocess events"
	candidates, err := db.selected(ctx, tenant, which)
	if err != nil {
		return nil, err
	}
	var moved []eventhook.EventID
	err = db.mutate(ctx, act, by, tenant, func(m *mutation) error {
		rows, err := m.tx.Query(ctx, reprocessSQL, [16]byte(tenant), uuids(candidates), db.now())
		if err != nil {
			return err
		}
		if moved, err = pgx.CollectRows(rows, scanEventID); err != nil || len(moved) == 0 {
			return err
		}
		slices.SortFunc(moved, compareNewestFirst)
		return recordBulk(m, "events.reprocessed", "event", "events", moved)
	})
	if err != nil {
		return nil, err
	}
	if len(moved) > 0 {
		db.WakeEvents()
		db.feed.eventsChanged(db.now(), tenant, moved...)
	}
	return moved, nil
}

// selected are the ids that a selection may mean. The newest are taken, since
// these have their payloads if any have.
func (db *DB) selected(ctx context.Context, tenant eventhook.TenantID, which eventhook.EventSelection) ([]eventhook.EventID, error) {
	if len(which.IDs) > 0 {
		return which.IDs, nil
	}
	var all []eventhook.EventID
	for _, status := range eventhook.Reprocessable {
		if len(which.Statuses) > 0 && !slices.Contains(which.Statuses, status) {
			continue
		}
		f := which.Filter
		f.Status, f.Before = status, eventhook.EventID{}
		ids, err := readEvents(ctx, db, tenant, f, `e.id`, scanEventID)
		if err != nil {
			return nil, err
		}
		all = append(all, ids...)
	}
	slices.SortFunc(all, compareNewestFirst)
	return all[:min(len(all), which.Filter.Limit)], nil
}

func compareNewestFirst(x, y eventhook.EventID) int { return -slices.Compare(x[:], y[:]) }

func scanEventID(row pgx.CollectableRow) (id eventhook.EventID, err error) {
	return id, row.Scan((*[16]byte)(&id))
}
