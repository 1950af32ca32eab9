package pg

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// reprocessSQL makes events due and resets their retries. It skips events that another
// transaction has locked, so that it does not wait. It increments the lease token, since
// an event may have been settled with the current one. It checks the payload in the same
// transaction: until the commit, no partition that it has read is dropped. Primary keys,
// one partition each.
const reprocessSQL = `
WITH chosen AS MATERIALIZED (
    SELECT e.tenant_id, e.id
    FROM unnest($2::uuid[]) AS u (id) JOIN eventhook.event e ON e.tenant_id = $1 AND e.id = u.id
    WHERE e.status IN ('failed', 'dead', 'unrouted') AND e.source_id IS NOT NULL
      AND EXISTS (SELECT FROM eventhook.event_payload p WHERE p.event_id = u.id)
    FOR UPDATE OF e SKIP LOCKED
)
UPDATE eventhook.event e
SET status = 'pending', due_at = $3, lease_token = e.lease_token + 1, retry_count = 0, last_error = NULL, processed_at = NULL, rerouted_at = $3
FROM chosen c
WHERE e.tenant_id = c.tenant_id AND e.id = c.id
RETURNING e.id`

// ReprocessEvents makes a tenant's events due now, with all their retries left, and returns
// their ids, newest first. Actions that succeeded are not executed again. It omits
// events with a status other than failed, dead and unrouted, events without a source,
// events whose payload is past its retention, and events that another transaction has
// locked. The change and its audit entry are one transaction.
func (db *DB) ReprocessEvents(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, selection eventhook.EventSelection) ([]eventhook.EventID, error) {
	const act = "reprocess events"
	candidates, err := db.selectEvents(ctx, tenant, selection, eventhook.Reprocessable)
	if err != nil {
		return nil, err
	}
	var reprocessed []eventhook.EventID
	err = db.mutate(ctx, act, by, tenant, func(m *mutation) error {
		rows, err := m.tx.Query(ctx, reprocessSQL, [16]byte(tenant), uuids(candidates), db.now())
		if err != nil {
			return err
		}
		if reprocessed, err = pgx.CollectRows(rows, scanEventID); err != nil || len(reprocessed) == 0 {
			return err
		}
		slices.SortFunc(reprocessed, compareNewestFirst)
		return recordBulk(m, "events.reprocessed", "event", "events", reprocessed)
	})
	if err != nil {
		return nil, err
	}
	if len(reprocessed) > 0 {
		db.WakeEvents()
		db.feed.eventsChanged(db.now(), tenant, reprocessed...)
	}
	return reprocessed, nil
}

// selectEvents returns the ids of the events that a selection may include. It prefers the
// newest, since these are most likely to have their payloads. A selection without statuses
// includes the statuses byDefault. If selection.ExpectedCount is not their number, the error is
// KindConflict.
func (db *DB) selectEvents(ctx context.Context, tenant eventhook.TenantID, selection eventhook.EventSelection,
	byDefault []eventhook.EventStatus) ([]eventhook.EventID, error) {
	if len(selection.IDs) > 0 {
		return selection.IDs, eventhook.CheckExpectedCount(selection.ExpectedCount, len(withoutRepetitions(selection.IDs)), "events")
	}
	f := selection.Filter
	if selection.ExpectedCount != nil {
		f.Limit = eventhook.MaxExpectedEvents + 1
	}
	var all []eventhook.EventID
	statuses := slices.Compact(slices.Sorted(slices.Values(selection.Statuses)))
	if len(statuses) == 0 {
		statuses = byDefault
	}
	for _, status := range statuses {
		f.Status, f.Before = status, eventhook.EventID{}
		ids, err := readEvents(ctx, db.lists, tenant, f, `e.id`, scanEventID)
		if err != nil {
			return nil, err
		}
		all = append(all, ids...)
	}
	if err := eventhook.CheckExpectedCount(selection.ExpectedCount, len(all), "events"); err != nil {
		return nil, err
	}
	slices.SortFunc(all, compareNewestFirst)
	return all[:min(len(all), selection.Filter.Limit)], nil
}

func compareNewestFirst(x, y eventhook.EventID) int { return -slices.Compare(x[:], y[:]) }

func scanEventID(row pgx.CollectableRow) (id eventhook.EventID, err error) {
	return id, row.Scan((*[16]byte)(&id))
}
