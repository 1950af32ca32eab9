package pg

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// lifecycleNamesSQL reads which lifecycle events subscriptions of tenants name, and operator
// subscriptions that receive events of these tenants. Index subscription_lifecycle.
const lifecycleNamesSQL = `
SELECT s.tenant_id, false, s.event_types FROM eventhook.subscription s
WHERE s.tenant_id = ANY($1) AND s.tenant_id <> ` + operatorID + ` AND ` + namesLifecycle + `
UNION ALL
SELECT t.id, true, s.event_types FROM eventhook.subscription s JOIN eventhook.tenant t ON t.id = ANY($1)
WHERE ` + receivesFrom + ` AND ` + namesLifecycle

// lifecycleNames has the patterns of a tenant's subscriptions that name lifecycle events, and
// those of operator subscriptions that receive its events.
type lifecycleNames struct{ own, operator []string }

func readLifecycleNames(ctx context.Context, tx pgx.Tx, changes []lifecycleChange) (map[eventhook.TenantID]*lifecycleNames, error) {
	names := map[eventhook.TenantID]*lifecycleNames{}
	var tenants [][16]byte
	for _, c := range changes {
		if names[c.tenant] == nil {
			names[c.tenant] = &lifecycleNames{}
			tenants = append(tenants, c.tenant)
		}
	}
	rows, err := tx.Query(ctx, lifecycleNamesSQL, tenants)
	if err != nil {
		return nil, err
	}
	var tenant eventhook.TenantID
	var isOperator bool
	var types []string
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&tenant), &isOperator, &types}, func() error {
		if n := names[tenant]; isOperator {
			n.operator = append(n.operator, types...)
		} else {
			n.own = append(n.own, types...)
		}
		return nil
	})
	return names, err
}

// lifecycleEvents returns the events of changes that a subscription still names.
func lifecycleEvents(ctx context.Context, tx pgx.Tx, changes []lifecycleChange) (events []*eventhook.Event, err error) {
	if len(changes) == 0 {
		return nil, nil
	}
	names, err := readLifecycleNames(ctx, tx, changes)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		patterns, of := patternsOf(c.eventType), names[c.tenant]
		isNamed := func(types []string) bool {
			return slices.ContainsFunc(patterns, func(p string) bool { return slices.Contains(types, p) })
		}
		if !isNamed(of.own) && !isNamed(of.operator) {
			continue
		}
		e, err := c.event()
		if err != nil {
			return nil, err
		}
		if !isNamed(of.own) {
			e.TenantID, e.Envelope.TenantID = eventhook.OperatorTenant, new(c.tenant)
		}
		events = append(events, e)
	}
	return events, nil
}
