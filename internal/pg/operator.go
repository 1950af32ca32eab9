package pg

import (
	"context"
	"time"
)

// The operator tenant (eventhook.OperatorTenant) owns the subscriptions that receive events of
// all tenants. A delivery to such a subscription has the tenant of its event. Tenants never
// see these deliveries.
const (
	operatorID = `'00000000-0000-7000-8000-000000000001'::uuid`

	// operatorGeneration is added to the generation of each tenant: a plan is also stale
	// after a change of an operator subscription. Both numbers only grow, so their sum is
	// the current one only if both are. It is evaluated once per statement. Primary key.
	operatorGeneration = `coalesce((SELECT o.generation FROM eventhook.tenant_generation o WHERE o.tenant_id = ` + operatorID + `), 0)`

	// operatorSubscriptions are the ids of at most MaxOperatorSubscriptions subscriptions, and
	// of deleted ones whose deliveries may still be stored. Index subscription_tenant, once
	// per statement.
	operatorSubscriptions = `ARRAY(SELECT o.id FROM eventhook.subscription o WHERE o.tenant_id = ` + operatorID + `
        UNION ALL SELECT id FROM eventhook.deleted_operator_subscription)`

	// receivesFrom is the condition that an operator subscription s receives events of a
	// tenant t.
	receivesFrom = `s.tenant_id = ` + operatorID + ` AND (NOT s.settings ? 'tenants' OR s.settings->'tenants' ? t.slug)`

	// isOperatorTenant is the condition that the parameter @tenant is the operator tenant.
	isOperatorTenant = `@tenant::uuid = ` + operatorID

	// rememberDeletedSQL keeps the id of an operator subscription that is deleted.
	rememberDeletedSQL = `INSERT INTO eventhook.deleted_operator_subscription (id, deleted_at) VALUES ($1, $2) ON CONFLICT DO NOTHING`
)

// SweepOperatorSubscriptions deletes the ids of operator subscriptions that were deleted longer
// than twice keep ago, and returns their number. keep is the retention of deliveries: no
// delivery to these subscriptions is stored any more. If keep is 0, it deletes none.
func (db *DB) SweepOperatorSubscriptions(ctx context.Context, keep time.Duration) (int, error) {
	if keep <= 0 {
		return 0, nil
	}
	tag, err := db.work.Exec(ctx, `DELETE FROM eventhook.deleted_operator_subscription WHERE deleted_at < $1`, db.now().Add(-2*keep))
	return int(tag.RowsAffected()), translate("sweep operator subscriptions", err)
}
