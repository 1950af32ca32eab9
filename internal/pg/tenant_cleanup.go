package pg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// Limits of the background work on closed tenants.
const (
	cleanupLease   = 30 * time.Second
	cleanupPage    = 1000 // rows that one transaction reads
	cleanupBatches = 50   // transactions per claim; then other tenants have their share
	// lateWrites is how long after the closing rows may still be added by requests that
	// other instances had accepted before. A log of webhooks may keep events for longer: it asks
	// ClosedTenants before it stores them.
	lateWrites = 30 * time.Second
)

// cleaner does the background work on one closed tenant, under a lease. Each batch is one
// transaction that also stores the progress, so a crash repeats nothing and loses nothing.
type cleaner struct {
	db       *DB
	tenant   eventhook.Tenant
	step     int
	position eventhook.ID[cleaner] // the last row that was read in the step
	token    int64
	cleanup  eventhook.TenantCleanup
}

// cleanupStep is one step. It changes a batch of rows in the transaction of the mutation. It
// sets the position of the cleaner and returns the number of changed rows by their kind, and
// whether the step has more batches.
type cleanupStep func(ctx context.Context, c *cleaner, m *mutation) (changed map[string]int64, more bool, err error)

// closeSteps end the open work of a tenant. They run twice: the second time after
// lateWrites.
var closeSteps = []cleanupStep{endEvents, endExecutions, endPromises, endDeliveries}

// cleanupSteps returns all steps in their order. The steps of a purge come last.
func cleanupSteps() (all []cleanupStep, firstOfPurge int) {
	all = append(append(all, closeSteps...), closeSteps...)
	return append(all, purgeSteps...), len(all)
}

// claimCleanupSQL leases the tenant that waited longest. Index tenant_cleanup_due.
const claimCleanupSQL = `
UPDATE eventhook.tenant_cleanup c SET due_at = $2, lease_token = c.lease_token + 1
FROM (SELECT tenant_id FROM eventhook.tenant_cleanup WHERE due_at <= $1 ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED) due
WHERE c.tenant_id = due.tenant_id
RETURNING c.tenant_id, c.step, coalesce(c.position, '00000000-0000-0000-0000-000000000000'), c.lease_token, ` + cleanupColumns

const cleanupColumns = `c.correlation_id, c.ended, c.closed_at, c.close_completed_at, c.deleted, c.purge_requested_at, c.purge_completed_at`

func scanCleanup(row pgx.Row, into *eventhook.TenantCleanup, before ...any) error {
	var ended, deleted []byte
	err := row.Scan(append(before, &into.CorrelationID, &ended, &into.ClosedAt, &into.CloseCompletedAt, &deleted,
		&into.PurgeRequestedAt, &into.PurgeCompletedAt)...)
	if err != nil {
		return err
	}
	return errors.Join(json.Unmarshal(ended, &into.Ended), json.Unmarshal(deleted, &into.Deleted))
}

// TenantCleanup returns the progress of the work after a tenant was closed. The error is
// KindNotFound if the tenant is not closed. Primary key.
func (db *DB) TenantCleanup(ctx context.Context, tenant eventhook.TenantID) (c eventhook.TenantCleanup, err error) {
	err = scanCleanup(db.work.QueryRow(ctx, `SELECT `+cleanupColumns+` FROM eventhook.tenant_cleanup c WHERE c.tenant_id = $1`,
		[16]byte(tenant)), &c)
	return c, translate("read the closing of the tenant", notFound(err, "closed tenant"))
}

// CleanUpTenants continues the background work on one closed tenant, in a bounded number of
// batches, and reports whether there may be more to do. It returns false if no tenant is due
// or other instances work on all of them. After a crash, the work continues when its lease
// ends.
func (db *DB) CleanUpTenants(ctx context.Context) (more bool, err error) {
	return db.cleanUpTenant(ctx, cleanupBatches)
}

func (db *DB) cleanUpTenant(ctx context.Context, maxBatches int) (more bool, err error) {
	c, err := db.claimCleanup(ctx)
	if err != nil || c == nil {
		return false, translate("claim a closed tenant", err)
	}
	steps, firstOfPurge := cleanupSteps()
	for range maxBatches {
		due, err := c.runBatch(ctx, steps, firstOfPurge)
		if err != nil {
			return false, fmt.Errorf("clean up the tenant %s: %w", c.tenant.Slug, err)
		}
		if !due {
			return true, nil
		}
	}
	return true, db.releaseCleanup(ctx, c)
}

func (db *DB) claimCleanup(ctx context.Context) (*cleaner, error) {
	c, now := &cleaner{db: db}, db.now()
	err := scanCleanup(db.work.QueryRow(ctx, claimCleanupSQL, now, now.Add(cleanupLease)), &c.cleanup,
		(*[16]byte)(&c.tenant.ID), &c.step, (*[16]byte)(&c.position), &c.token)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c.tenant, err = scanTenant(db.work.QueryRow(ctx, `SELECT `+tenantColumns+` FROM eventhook.tenant WHERE id = $1`, [16]byte(c.tenant.ID)))
	return c, err
}

// releaseCleanup makes the tenant due again at once.
func (db *DB) releaseCleanup(ctx context.Context, c *cleaner) error {
	_, err := db.work.Exec(ctx, `UPDATE eventhook.tenant_cleanup SET due_at = $3 WHERE tenant_id = $1 AND lease_token = $2`,
		[16]byte(c.tenant.ID), c.token, db.now())
	return translate("release a closed tenant", err)
}

// saveCleanupSQL stores the progress if the lease is still valid, and extends it. Primary key.
const saveCleanupSQL = `
UPDATE eventhook.tenant_cleanup SET step = @step, position = @position, due_at = @due_at, ended = @ended, deleted = @deleted,
    close_completed_at = @close_completed_at, purge_completed_at = @purge_completed_at
WHERE tenant_id = @tenant AND lease_token = @token AND due_at IS NOT NULL
RETURNING purge_requested_at`

// runBatch runs one batch of the current step and stores the progress, in one transaction. It
// reports whether the next batch is due now.
func (c *cleaner) runBatch(ctx context.Context, steps []cleanupStep, firstOfPurge int) (isDue bool, err error) {
	m := &mutation{db: c.db, by: eventhook.Actor{Type: eventhook.ActorSystem, Name: "tenant cleanup"}, tenant: c.tenant,
		correlation: c.cleanup.CorrelationID}
	err = m.run(ctx, "clean up a tenant", func() error {
		if c.step < len(steps) && (c.step < firstOfPurge || c.cleanup.PurgeRequestedAt != nil) {
			changed, more, err := steps[c.step](ctx, c, m)
			if err != nil {
				return err
			}
			c.count(changed, c.step >= firstOfPurge)
			if !more {
				c.step, c.position = c.step+1, eventhook.ID[cleaner]{}
			}
		}
		due := c.nextDue(m, len(steps), firstOfPurge)
		isDue = due != nil && !due.After(c.db.now())
		if isDue {
			due = new(c.db.now().Add(cleanupLease)) // the lease
		}
		return c.save(ctx, m.tx, due)
	})
	return isDue, err
}

// nextDue returns when the next step is due, nil if none is. It records the end of the closing
// and of the purge.
func (c *cleaner) nextDue(m *mutation, steps, firstOfPurge int) *time.Time {
	now := c.db.now()
	late := c.cleanup.ClosedAt.Add(lateWrites)
	switch isPurge := c.cleanup.PurgeRequestedAt != nil; {
	case c.step == len(closeSteps) && c.position.IsZero() && late.After(now):
		return &late
	case c.step < firstOfPurge:
		return &now
	case c.cleanup.CloseCompletedAt == nil:
		c.cleanup.CloseCompletedAt = &now
		return c.nextDue(m, steps, firstOfPurge)
	case !isPurge:
		return nil
	case c.step < steps:
		return &now
	}
	c.cleanup.PurgeCompletedAt = &now
	m.recordChanges("tenant.purged", resourceOfTenant(c.tenant),
		[]eventhook.FieldChange{{Field: "purge", From: json.RawMessage(`"running"`), To: json.RawMessage(`"completed"`)}})
	return nil
}

// count adds changed rows to the totals.
func (c *cleaner) count(changed map[string]int64, isPurge bool) {
	totals := &c.cleanup.Ended
	if isPurge {
		totals = &c.cleanup.Deleted
	}
	if *totals == nil {
		*totals = map[string]int64{}
	}
	for kind, n := range changed {
		if n > 0 {
			(*totals)[kind] += n
		}
	}
}

// save stores the progress. The error is ErrLeaseLost if another instance has taken over.
func (c *cleaner) save(ctx context.Context, tx pgx.Tx, due *time.Time) error {
	ended, err := json.Marshal(c.cleanup.Ended)
	if err != nil {
		return err
	}
	deleted, err := json.Marshal(c.cleanup.Deleted)
	if err != nil {
		return err
	}
	was := c.cleanup.PurgeRequestedAt
	err = tx.QueryRow(ctx, saveCleanupSQL, pgx.StrictNamedArgs{"tenant": [16]byte(c.tenant.ID), "token": c.token, "step": c.step,
		"position": [16]byte(c.position),
		"due_at":   due, "ended": string(ended), "deleted": string(deleted), "close_completed_at": c.cleanup.CloseCompletedAt,
		"purge_completed_at": c.cleanup.PurgeCompletedAt}).Scan(&c.cleanup.PurgeRequestedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return eventhook.ErrLeaseLost
	}
	if err == nil && due == nil && was == nil && c.cleanup.PurgeRequestedAt != nil { // requested during this batch
		_, err = tx.Exec(ctx, `UPDATE eventhook.tenant_cleanup SET due_at = $2 WHERE tenant_id = $1`, [16]byte(c.tenant.ID), c.db.now())
	}
	return err
}
