package pg

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// restartDeliveriesSQL makes deliveries due anew and forgets their retries. Rows
// that somebody else changes at this moment are skipped, so that nobody waits.
// The token grows, since a delivery may have been settled under the last one. The
// payload is looked for in the same transaction: while it runs, no partition that
// it has read is dropped. Each id brings its tenant: one for all, the planner would
// read all of the tenant's while a partition is empty, and keep to it. Primary keys.
const restartDeliveriesSQL = `
WITH chosen AS MATERIALIZED (
    SELECT d.tenant_id, d.id
    FROM unnest($1::uuid[], $2::uuid[]) AS u (tenant_id, id) JOIN eventhook.delivery d ON d.tenant_id = u.tenant_id AND d.id = u.id
    WHERE (d.status = ANY($4::text[])) IS TRUE
      AND EXISTS (SELECT FROM eventhook.subscription s WHERE s.id = d.subscription_id AND s.status <> 'disabled')
      AND EXISTS (SELECT FROM eventhook.event_payload p WHERE p.event_id = d.event_id)
    FOR UPDATE OF d SKIP LOCKED
)
UPDATE eventhook.delivery d
SET status = 'pending', due_at = $3, restarted_at = $3, completed_at = NULL, lease_token = d.lease_token + 1, retry_count = 0
FROM chosen c
WHERE d.tenant_id = c.tenant_id AND d.id = c.id
RETURNING d.id`

const (
	mostRestarted    = 10_000 // in one act
	restartsTogether = 1_000  // in one transaction
)

// RestartDeliveries makes a tenant's deliveries due at once, with all their
// retries before them, and returns their ids, newest first. Unless the selection
// names states, these are failed and dead ones; it may name success, too. Left
// alone are those that are owed and not failed, those whose subscription is gone or
// disabled, those whose event's data is past its retention, and those that somebody
// is changing at this moment. A paused subscription's wait.
//
// They are at most 10 000, the newest that the selection means, a thousand in
// each transaction, in which they are recorded, too. With an error those that
// were begun anew before it are returned.
func (db *DB) RestartDeliveries(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, which eventhook.DeliverySelection) ([]eventhook.DeliveryID, error) {
	statuses := restartable(which.Statuses)
	candidates, err := db.selectedDeliveries(ctx, tenant, which, statuses)
	if err != nil {
		return nil, err
	}
	var restarted []eventhook.DeliveryID
	for part := range slices.Chunk(candidates, restartsTogether) {
		more, err := db.restart(ctx, by, tenant, part, statuses)
		restarted = append(restarted, more...)
		if err != nil {
			return restarted, err
		}
		if len(more) > 0 {
			db.WakeDeliveries()
		}
	}
	return restarted, nil
}

// restartable are the states from which deliveries are begun anew.
func restartable(wanted []eventhook.DeliveryStatus) (statuses []string) {
	if len(wanted) == 0 {
		wanted = []eventhook.DeliveryStatus{eventhook.DeliveryFailed, eventhook.DeliveryDead}
	}
	for _, s := range []eventhook.DeliveryStatus{eventhook.DeliveryFailed, eventhook.DeliveryDead, eventhook.DeliverySuccess} {
		if slices.Contains(wanted, s) {
			statuses = append(statuses, string(s))
		}
	}
	return statuses
}

func (db *DB) restart(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, ids []eventhook.DeliveryID, statuses []string) (restarted []eventhook.DeliveryID, err error) {
	err = db.manage(ctx, "restart deliveries", by, tenant, func(m *manager) error {
		rows, err := m.tx.Query(ctx, restartDeliveriesSQL, slices.Repeat([][16]byte{tenant}, len(ids)), uuids(ids), db.now(), statuses)
		if err != nil {
			return err
		}
		restarted, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (id eventhook.DeliveryID, err error) { return id, r.Scan((*[16]byte)(&id)) })
		if err != nil || len(restarted) == 0 {
			return err
		}
		slices.SortFunc(restarted, newerDelivery)
		return recordAll(m, "delivery.retried", "delivery", "deliveries", restarted)
	})
	if err != nil {
		return nil, err
	}
	return restarted, nil
}

// selectedDeliveries are the ids that a selection may mean, newest first.
func (db *DB) selectedDeliveries(ctx context.Context, tenant eventhook.TenantID, which eventhook.DeliverySelection, statuses []string) ([]eventhook.DeliveryID, error) {
	if len(which.IDs) > 0 {
		return which.IDs[:min(len(which.IDs), mostRestarted)], nil
	}
	f := eventhook.DeliveryFilter{SubscriptionID: which.SubscriptionID, EventID: which.EventID, CreatedBefore: which.Until,
		Limit: min(which.Limit, mostRestarted)}
	from, before := deliveryBounds(f)
	if since := eventhook.FirstID[eventhook.Delivery](which.Since); !which.Since.IsZero() && string(since[:]) > string(from[:]) {
		from = since
	}
	var all []eventhook.DeliveryID
	for _, status := range statuses {
		f.Status = eventhook.DeliveryStatus(status)
		list, err := db.listDeliveries(ctx, tenant, f, from, before)
		if err != nil {
			return nil, err
		}
		for _, d := range list {
			all = append(all, d.ID)
		}
	}
	slices.SortFunc(all, newerDelivery)
	return all[:min(len(all), f.Limit)], nil
}

func newerDelivery(x, y eventhook.DeliveryID) int { return -slices.Compare(x[:], y[:]) }
