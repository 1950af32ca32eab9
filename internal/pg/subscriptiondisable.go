package pg

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// itself is the gateway where nobody else has acted.
var itself = eventhook.Actor{Type: eventhook.ActorSystem, Name: "eventhook"}

// holdFailingSQL passes by what somebody else is changing at this moment, unless
// the caller holds it: by now he also holds what the other may wait for. Primary
// key.
const holdFailingSQL = `SELECT ` + subscriptionColumns + subscriptionTables + `
WHERE s.id = ANY($1) AND s.status <> 'disabled' ORDER BY s.tenant_id, s.id` + holdSubscriptions + ` SKIP LOCKED`

// disableSubscriptions disables subscriptions in the name of the gateway, each
// for a reason that people can read, in the transaction that has found it. It is
// recorded, and told to the others as webhook.disabled. One that is disabled
// already, is gone, or that somebody is changing at this moment is left as it
// is: the next delivery that dies finds it again. The caller calls tellAnnounced
// with each that it returns when it has committed.
func (db *DB) disableSubscriptions(ctx context.Context, tx pgx.Tx, reasons map[eventhook.SubscriptionID]string) (told []announced, disabled []eventhook.Subscription, err error) {
	if len(reasons) == 0 {
		return nil, nil, nil
	}
	ids := uuids(slices.Collect(maps.Keys(reasons)))
	rows, err := tx.Query(ctx, holdFailingSQL, ids)
	if err != nil {
		return nil, nil, err
	}
	list, err := db.collectSubscriptions(rows)
	if err != nil {
		return nil, nil, err
	}
	disabled = list
	for len(list) > 0 { // those of one tenant after the other, as everybody takes their generations
		tenant := eventhook.Tenant{ID: list[0].TenantID, Slug: list[0].TenantSlug}
		n := slices.IndexFunc(list, func(s eventhook.Subscription) bool { return s.TenantID != tenant.ID })
		if n < 0 {
			n = len(list)
		}
		of, err := db.disableOf(ctx, tx, tenant, list[:n], reasons)
		if err != nil {
			return nil, nil, err
		}
		told, list = append(told, of), list[n:]
	}
	return told, disabled, nil
}

func (db *DB) disableOf(ctx context.Context, tx pgx.Tx, tenant eventhook.Tenant, list []eventhook.Subscription, reasons map[eventhook.SubscriptionID]string) (announced, error) {
	m := &manager{db: db, tx: tx, by: itself, tenant: tenant, later: &pgx.Batch{}}
	for _, s := range list {
		want := s
		want.Status, want.DisabledReason = eventhook.SubscriptionDisabled, reasons[s.ID]
		if _, _, err := m.updateSubscription(ctx, s, want); err != nil {
			return announced{}, err
		}
	}
	err := m.flush(ctx)
	return m.announced, err
}
