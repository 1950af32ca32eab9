package pg

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// lockMatchingSQL locks the subscriptions of a tenant that match a filter, as
// listSubscriptionsSQL does, in the order of their ids. Index on tenant and id.
const lockMatchingSQL = `SELECT ` + subscriptionColumns + subscriptionTables + `
WHERE s.tenant_id = @tenant AND (@statuses::text[] IS NULL OR s.status = ANY(@statuses))
  AND (@types::text[] IS NULL OR EXISTS (SELECT FROM unnest(s.event_types) AS p (pattern) WHERE p.pattern = ANY(@types) OR starts_with(p.pattern, @prefix)))
ORDER BY s.id` + lockSubscriptionsClause

// UpdateSubscriptions changes the oldest subscriptions of a tenant that match a filter, in one
// transaction with one audit entry of the action. change receives the current subscription and
// returns the wanted one; if it returns an error of KindConflict, the subscription is skipped.
// matched counts all matches, and changed has the subscriptions that differ now, oldest first.
// If which.ExpectedCount is not the number of matches, nothing changes, and the error is
// KindConflict with the number.
func (db *DB) UpdateSubscriptions(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID,
	which eventhook.SubscriptionSelection, change func(eventhook.Subscription) (eventhook.Subscription, error)) (matched int,
	changed []eventhook.SubscriptionID, err error) {
	err = db.mutate(ctx, "change subscriptions", by, tenant, func(m *mutation) error {
		list, err := m.lockMatching(ctx, which)
		if err != nil {
			return err
		}
		matched, changed = len(list), nil
		if err := eventhook.CheckExpectedCount(which.ExpectedCount, matched, "subscriptions"); err != nil {
			return err
		}
		m.batch = &pgx.Batch{}
		for _, have := range list[:min(which.Limit, len(list))] {
			want, err := change(have)
			if eventhook.KindOf(err) == eventhook.KindConflict {
				continue
			}
			if err != nil {
				return err
			}
			_, changes, err := m.updateSubscription(ctx, have, want)
			if err != nil {
				return err
			}
			if len(changes) > 0 {
				changed = append(changed, have.ID)
			}
		}
		return m.recordBulkUpdate(ctx, which.Action, changed)
	})
	return matched, changed, err
}

func (m *mutation) lockMatching(ctx context.Context, which eventhook.SubscriptionSelection) ([]eventhook.Subscription, error) {
	types, prefix := patternsOver(which.EventType)
	rows, err := m.tx.Query(ctx, lockMatchingSQL, pgx.StrictNamedArgs{"tenant": [16]byte(m.tenant.ID), "statuses": which.Statuses,
		"types": types, "prefix": prefix})
	if err != nil {
		return nil, err
	}
	return m.db.collectSubscriptions(rows)
}

// recordBulkUpdate publishes a system event for each changed subscription, and records one
// audit entry instead of theirs.
func (m *mutation) recordBulkUpdate(ctx context.Context, action string, changed []eventhook.SubscriptionID) error {
	if len(changed) == 0 {
		return nil
	}
	if err := m.sendBatch(ctx); err != nil {
		return err
	}
	if err := m.announce(ctx); err != nil {
		return err
	}
	m.entries = nil
	return recordBulk(m, action, "subscription", "subscriptions", changed)
}
