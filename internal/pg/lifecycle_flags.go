package pg

import (
	"context"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/snapshot"
)

// lifecycleFlags caches for each tenant whether changes of its executions and promises are
// stored. A change of a subscription on this instance counts at once. Another instance knows it
// when it gets the notification, or after lifecycleFlagAge if the notification was lost: until
// then, it stores no changes for the first subscription of a tenant that names such events.
type lifecycleFlags = snapshot.Cache[eventhook.TenantID, bool]

const (
	lifecycleFlagAge = 10 * time.Second
	maxLifecycleFlag = 10_000 // tenants
)

// isLoggedSQL reads index subscription_lifecycle.
const isLoggedSQL = `SELECT EXISTS (SELECT FROM eventhook.subscription s WHERE s.tenant_id IN ($1, ` + operatorID + `) AND ` + namesLifecycle + `)`

func (db *DB) newLifecycleFlags() *lifecycleFlags {
	return snapshot.New(maxLifecycleFlag, lifecycleFlagAge, db.now,
		func(ctx context.Context, tenant eventhook.TenantID) (isLogged bool, err error) {
			err = db.work.QueryRow(ctx, isLoggedSQL, [16]byte(tenant)).Scan(&isLogged)
			return isLogged, err
		})
}

// form returns the form of a statement that a tenant needs now.
func (db *DB) form(ctx context.Context, tenant eventhook.TenantID, s changeSQL) string {
	if isLogged, err := db.lifecycle.Get(ctx, tenant); err == nil && !isLogged {
		return s.silent
	}
	return s.logged
}

// subscriptionsChanged evicts the flags that a change of a tenant's subscriptions concerns; of
// all tenants if tenant is zero or the operator tenant.
func (db *DB) subscriptionsChanged(tenant eventhook.TenantID) {
	if tenant.IsZero() || tenant == eventhook.OperatorTenant {
		db.lifecycle.Clear()
		return
	}
	db.lifecycle.Invalidate(tenant)
}
