package pg

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// maxRecounts is how often deliveries are counted again because they have changed.
const maxRecounts = 5

var (
	// errSelectionChanged rolls back a restart if a selected delivery has changed since it was counted.
	errSelectionChanged = errors.New("the selected deliveries have changed")
	errKeepsChanging    = &eventhook.Error{Kind: eventhook.KindConflict,
		Message: "The deliveries that match the filter keep changing. Nothing was changed: try again, or select only dead deliveries."}
)

// restartExpected restarts the selected deliveries, in one transaction, if which.ExpectedCount
// is the number of deliveries that match. It counts and selects them in one snapshot, and
// restarts none if one of the selected deliveries has left its state since then: it counts again.
func (db *DB) restartExpected(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID,
	which eventhook.DeliverySelection) ([]eventhook.DeliveryID, error) {
	statuses := restartableStatuses(which.Statuses)
	for range maxRecounts {
		rows, err := db.expectedDeliveries(ctx, tenant, which, statuses)
		if err != nil || len(rows) == 0 {
			return nil, err
		}
		restarted, err := db.restartBatch(ctx, by, restart{tenant: tenant, rows: rows, statuses: statuses, isExact: true})
		if errors.Is(err, errSelectionChanged) {
			continue
		}
		if len(restarted) > 0 {
			db.WakeDeliveries()
		}
		return restarted, err
	}
	return nil, errKeepsChanging
}

// expectedDeliveries returns the keys of the selected deliveries, newest first, if as many match
// as the caller expects. All statements read one snapshot.
func (db *DB) expectedDeliveries(ctx context.Context, tenant eventhook.TenantID, which eventhook.DeliverySelection,
	statuses []string) (rows []rowKey, err error) {
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, db.lists, snapshot, func(tx pgx.Tx) error {
		if which.Group != "" && len(which.IDs) == 0 {
			rows, err = expectedGroup(ctx, tx, tenant, which)
			return err
		}
		matched, err := countMatching(ctx, tx, tenant, which, statuses)
		if err == nil {
			err = eventhook.CheckExpectedCount(which.ExpectedCount, matched, "deliveries")
		}
		if err == nil {
			rows, err = selectedDeliveries(ctx, tx, tenant, which, statuses)
		}
		return err
	})
	return rows, translate("count deliveries", err)
}

// countMatching counts the deliveries of a selection that can be restarted, in each state up to
// MaxExpectedCount+1, by the same indexes as their list.
func countMatching(ctx context.Context, lists batcher, tenant eventhook.TenantID, which eventhook.DeliverySelection,
	statuses []string) (n int, err error) {
	f, from, before := selectionFilter(which)
	f.Limit = eventhook.MaxExpectedCount + 1
	for _, status := range statuses {
		f.Status = eventhook.DeliveryStatus(status)
		counts, err := readPlannedOnce(ctx, lists, `SELECT count(*) FROM (`+deliveryList(f)+`) d`, pgx.RowTo[int],
			deliveryListArgs(tenant, f, from, before))
		if err != nil {
			return 0, err
		}
		n += slices.Max(counts)
	}
	return n, nil
}

// lockExactSQL locks the deliveries that are in one of the states @statuses, in the order of
// their ids. It waits for other transactions, and skips deliveries that these changed. Primary keys.
const lockExactSQL = `
SELECT d.id FROM unnest(@tenants::uuid[], @ids::uuid[]) AS u (tenant_id, id)
JOIN eventhook.delivery d ON d.tenant_id = u.tenant_id AND d.id = u.id
WHERE (d.status = ANY(@statuses::text[])) IS TRUE
ORDER BY d.id FOR UPDATE OF d`

// lockExact locks the deliveries of an exact restart. It returns errSelectionChanged if one of
// them is not in its states.
func (r restart) lockExact(ctx context.Context, tx pgx.Tx) error {
	if !r.isExact {
		return nil
	}
	tenants, ids := keysOf(r.rows)
	tag, err := tx.Exec(ctx, lockExactSQL, pgx.StrictNamedArgs{"tenants": tenants, "ids": ids, "statuses": r.statuses})
	if err == nil && int(tag.RowsAffected()) < len(r.rows) {
		return errSelectionChanged
	}
	return err
}
