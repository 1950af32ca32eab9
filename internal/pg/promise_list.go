package pg

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// promiseRows are the promises that a scan examines. Index promise_tenant.
var promiseRows = scanRows{table: "promise", alias: "p",
	where:   `p.tenant_id = @tenant AND p.id >= @from AND p.id < @before AND NOT p.is_held`,
	matches: `@status = '' OR p.status = @status`}

// promisesByIDSQL reads promises by their primary key, newest first.
const promisesByIDSQL = `SELECT ` + promiseColumns + ` FROM eventhook.promise WHERE id = ANY($1) ORDER BY id DESC`

// Promises lists a tenant's promises, newest first. It examines a limited number of promises
// for a limited time, and may return fewer than f.Limit although more match; Next continues.
// A page with large values ends early.
func (db *DB) Promises(ctx context.Context, tenant eventhook.TenantID, f eventhook.PromiseFilter) (found eventhook.PromiseScan, err error) {
	err = db.list(ctx, func(ctx context.Context, lists *listPool) error {
		found, err = lists.scanPromises(ctx, tenant, f, scan{scanLimits: listScan, limit: f.Limit, now: db.now})
		return err
	})
	return found, translate("list promises", err)
}

func (p *listPool) scanPromises(ctx context.Context, tenant eventhook.TenantID, f eventhook.PromiseFilter,
	s scan) (found eventhook.PromiseScan, err error) {
	sql := promiseRows.sql(false)
	s.read = func(ctx context.Context, from, before [16]byte, rows int) (scanStep, error) {
		return p.readScanStep(ctx, sql, pgx.StrictNamedArgs{"tenant": [16]byte(tenant), "status": string(f.Status), "from": from,
			"before": before, "rows": rows})
	}
	out, err := s.run(ctx, [16]byte{}, cursorArg(f.Before).([16]byte)) //nolint:forcetypeassert // cursorArg always returns this type
	if err != nil || len(out.rows) == 0 {
		found.Next = out.next
		return found, err
	}
	_, ids := keysOf(out.rows)
	rows, err := p.Query(ctx, promisesByIDSQL, ids)
	if err != nil {
		return found, err
	}
	found.Promises, err = collectPage(rows, func(r pgx.CollectableRow) (eventhook.Promise, error) { return scanPromise(r) })
	if found.Next = out.next; len(found.Promises) < len(ids) && len(found.Promises) > 0 {
		found.Next = found.Promises[len(found.Promises)-1].ID
	}
	return found, err
}
