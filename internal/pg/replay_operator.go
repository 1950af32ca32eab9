package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/replay"
)

// replayedEvent is an event that a replay may deliver.
type replayedEvent struct {
	TenantID  eventhook.TenantID
	ID        eventhook.EventID
	EventType string
	Origin    eventhook.Origin
}

func (db *DB) readReplayedEvents(ctx context.Context, sql string, args ...any) ([]replayedEvent, error) {
	rows, err := db.work.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (e replayedEvent, err error) {
		return e, r.Scan((*[16]byte)(&e.TenantID), (*[16]byte)(&e.ID), &e.EventType, (*string)(&e.Origin))
	})
}

// allEventsPageSQL reads events of all tenants, or of the tenants with the slugs $1. Events of
// several tenants have no common order in any index, so it reads up to $4 events of each tenant
// between the ids $2 and $3, which the caller keeps near each other. Primary key.
const allEventsPageSQL = `
SELECT e.* FROM eventhook.tenant t CROSS JOIN LATERAL (
    SELECT e.tenant_id, e.id, e.event_type, e.origin FROM eventhook.event e
    WHERE e.tenant_id = t.id AND e.id > $2 AND e.id < $3
    ORDER BY e.id LIMIT $4) e
WHERE $1::text[] IS NULL OR t.slug = ANY($1)
ORDER BY e.id LIMIT $4`

// readAllEvents reads the next limit events of the tenants whose events an operator
// subscription receives. It reads one window of time after another, and widens the window while
// that has few events.
func (db *DB) readAllEvents(ctx context.Context, job *replay.Job,
	limit int) (list []replayedEvent, cursor [16]byte, isLast bool, err error) {
	from, before := replayBounds(job)
	for window := firstWindow; ; {
		end := [16]byte(earlierEvent(eventhook.EventID(from).Time().Add(window), before))
		more, err := db.readReplayedEvents(ctx, allEventsPageSQL, job.Subscription.Tenants, from, end, limit-len(list))
		if err != nil {
			return nil, from, false, err
		}
		list = append(list, more...)
		if len(list) == limit || end == before {
			return list, from, len(list) < limit, nil
		}
		if from = end; len(more) <= limit/windowGrowth {
			window = min(window*windowGrowth, maxWindow)
		}
	}
}

// earlierEvent returns before, or the first id at a time if that is less.
func earlierEvent(at time.Time, before eventhook.EventID) eventhook.EventID {
	if first := eventhook.FirstID[eventhook.Event](at); string(first[:]) < string(before[:]) {
		return first
	}
	return before
}

// replayTenantsSQL reads the tenants with some slugs. Index of slugs.
const replayTenantsSQL = `SELECT id FROM eventhook.tenant WHERE slug = ANY($1)`

// ofReplayedTenants removes deliveries of tenants whose events an operator subscription does
// not receive any more.
func (db *DB) ofReplayedTenants(ctx context.Context, job *replay.Job, list []*eventhook.Delivery) ([]*eventhook.Delivery, error) {
	if job.Kind == eventhook.ReplayRecovery || len(job.Subscription.Tenants) == 0 || len(list) == 0 {
		return list, nil
	}
	rows, err := db.work.Query(ctx, replayTenantsSQL, job.Subscription.Tenants)
	if err != nil {
		return nil, err
	}
	receives := map[eventhook.TenantID]bool{}
	var id eventhook.TenantID
	if _, err := pgx.ForEachRow(rows, []any{(*[16]byte)(&id)}, func() error { receives[id] = true; return nil }); err != nil {
		return nil, err
	}
	kept := list[:0]
	for _, d := range list {
		if receives[d.TenantID] || d.TenantID == eventhook.OperatorTenant { // about a tenant that it received then
			kept = append(kept, d)
		}
	}
	return kept, nil
}
