package pg

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// SubscriptionNames returns the names of those of a tenant's subscriptions that
// are still there. Primary key lookups.
func (db *DB) SubscriptionNames(ctx context.Context, tenant eventhook.TenantID, ids []eventhook.SubscriptionID) (map[eventhook.SubscriptionID]string, error) {
	rows, err := db.lists.Query(ctx, `SELECT id, name FROM eventhook.subscription WHERE id = ANY ($1) AND tenant_id = $2`, uuids(ids), [16]byte(tenant))
	if err != nil {
		return nil, translate("name subscriptions", err)
	}
	names := map[eventhook.SubscriptionID]string{}
	var id [16]byte
	var name string
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		names[id] = name
		return nil
	})
	return names, translate("name subscriptions", err)
}
