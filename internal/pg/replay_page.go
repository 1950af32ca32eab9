package pg

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/replay"
)

// A page has at most $4 rows, so that a statement reads a bounded number of rows whatever the
// replay selects. $1 is the destination or the tenant, $2 the cursor, $3 the end.
const (
	// undeliveredPageSQL reads deliveries in the states $5. Index delivery_destination_status.
	undeliveredPageSQL = `
SELECT d.* FROM unnest($5::text[]) AS s (status) CROSS JOIN LATERAL (
    SELECT ` + replayPageColumns + ` FROM eventhook.delivery d
    WHERE d.destination_id = $1 AND d.status = s.status AND d.status IN ('failed', 'dead') AND d.id > $2 AND d.id < $3
    ORDER BY d.id LIMIT $4) d
ORDER BY d.id LIMIT $4`

	// deliveredPageSQL reads deliveries in all states. Index delivery_destination.
	deliveredPageSQL = `
SELECT ` + replayPageColumns + ` FROM eventhook.delivery d
WHERE d.destination_id = $1 AND d.attempts >= 0 AND d.id > $2 AND d.id < $3
ORDER BY d.id LIMIT $4`

	// eventPageSQL reads events of a tenant, with their origin. Primary key.
	eventPageSQL = `
SELECT e.tenant_id, e.id, e.event_type, e.origin FROM eventhook.event e
WHERE e.tenant_id = $1 AND e.id > $2 AND e.id < $3
ORDER BY e.id LIMIT $4`

	replayPageColumns = `d.tenant_id, d.id, d.event_id, d.event_type, d.status, d.completed_at, d.restarted_at`
)

// deliveriesByIDSQL reads the states of deliveries. Primary key, one partition each.
const deliveriesByIDSQL = `
SELECT ` + replayPageColumns + `
FROM unnest($1::uuid[], $2::uuid[]) AS u (tenant_id, id) JOIN eventhook.delivery d ON d.tenant_id = u.tenant_id AND d.id = u.id`

// ReplayPage reads the next limit rows of a replay after its cursor: deliveries of its
// subscription, or all events of its tenant if it creates missing deliveries. It returns the
// deliveries of published events, except of test events, which are for one subscription only.
func (db *DB) ReplayPage(ctx context.Context, job *replay.Job, limit int) (replay.Page, error) {
	read := db.deliveryPage
	if job.Missing {
		read = db.eventPage
	}
	page, err := read(ctx, job, limit)
	return page, translate("read a page of a replay", err)
}

// replayBounds returns the ids between which a replay continues, both exclusive.
func replayBounds(job *replay.Job) (after, before [16]byte) {
	after, before = job.Cursor, eventhook.FirstID[eventhook.Event](job.Until)
	if after == ([16]byte{}) {
		after = eventhook.FirstID[eventhook.Event](job.Start())
	}
	return after, before
}

func (db *DB) deliveryPage(ctx context.Context, job *replay.Job, limit int) (page replay.Page, err error) {
	after, before := replayBounds(job)
	sql, args := deliveredPageSQL, []any{[16]byte(job.SubscriptionID), after, before, limit}
	if !slices.Contains(job.Statuses, eventhook.DeliverySuccess) {
		sql, args = undeliveredPageSQL, append(args, restartableStatuses(job.Statuses))
	}
	rows, err := db.work.Query(ctx, sql, args...)
	if err != nil {
		return page, err
	}
	page.Deliveries, err = pgx.CollectRows(rows, scanReplayed(job))
	if err != nil {
		return page, err
	}
	page.IsLast = len(page.Deliveries) < limit
	if n := len(page.Deliveries); n > 0 {
		page.Cursor = page.Deliveries[n-1].ID
	}
	page.Deliveries, err = db.ofReplayedTenants(ctx, job, page.Deliveries)
	return page, err
}

// scanReplayed scans replayPageColumns.
func scanReplayed(job *replay.Job) func(pgx.CollectableRow) (*eventhook.Delivery, error) {
	return func(row pgx.CollectableRow) (*eventhook.Delivery, error) {
		d := newReplayed(job)
		err := row.Scan((*[16]byte)(&d.TenantID), (*[16]byte)(&d.ID), (*[16]byte)(&d.EventID), &d.EventType, (*string)(&d.Status),
			&d.CompletedAt, &d.RestartedAt)
		return d, err
	}
}

func newReplayed(job *replay.Job) *eventhook.Delivery {
	return &eventhook.Delivery{SubscriptionID: job.SubscriptionID, DestinationID: eventhook.DestinationID(job.SubscriptionID)}
}

func (db *DB) eventPage(ctx context.Context, job *replay.Job, limit int) (page replay.Page, err error) {
	after, before := replayBounds(job)
	var read []replayedEvent
	if job.TenantID == eventhook.OperatorTenant {
		read, page.Cursor, page.IsLast, err = db.readAllEvents(ctx, job, limit)
	} else {
		read, err = db.readReplayedEvents(ctx, eventPageSQL, [16]byte(job.TenantID), after, before, limit)
		page.IsLast = len(read) < limit
	}
	if err != nil {
		return page, err
	}
	for _, e := range read {
		page.Cursor = e.ID
		if e.Origin == eventhook.OriginSource || e.EventType == testEventType {
			continue
		}
		d := newReplayed(job)
		d.TenantID, d.ID, d.EventID, d.EventType = e.TenantID, eventhook.DeliveryIDOf(e.ID, d.DestinationID), e.ID, e.EventType
		page.Deliveries = append(page.Deliveries, d)
	}
	return page, db.readReplayed(ctx, job, page.Deliveries)
}

// testEventType is the type of test events.
const testEventType = "system.webhook_test"

// readReplayed sets the states of the deliveries that exist.
func (db *DB) readReplayed(ctx context.Context, job *replay.Job, list []*eventhook.Delivery) error {
	tenants, ids, byID := make([][16]byte, len(list)), make([][16]byte, len(list)),
		make(map[eventhook.DeliveryID]*eventhook.Delivery, len(list))
	for i, d := range list {
		tenants[i], ids[i], byID[d.ID] = d.TenantID, d.ID, d
	}
	rows, err := db.work.Query(ctx, deliveriesByIDSQL, tenants, ids)
	if err != nil {
		return err
	}
	stored, err := pgx.CollectRows(rows, scanReplayed(job))
	for _, d := range stored {
		*byID[d.ID] = *d
	}
	return err
}

// eventSizesSQL reads the sizes of events. Primary keys.
const eventSizesSQL = `
SELECT coalesce((SELECT e.body_size FROM eventhook.event e WHERE e.tenant_id = u.tenant_id AND e.id = u.id), 0)
FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY AS u (tenant_id, id, n) ORDER BY u.n`

// ReadReplayEvents sets Event of the first n deliveries, with the payload. It reads at least
// one, and stops when their payloads reach maxClaimBytes.
func (db *DB) ReadReplayEvents(ctx context.Context, list []*eventhook.Delivery) (n int, err error) {
	var tenants, ids [][16]byte
	for _, d := range list {
		tenants, ids = append(tenants, d.TenantID), append(ids, d.EventID)
	}
	rows, err := db.work.Query(ctx, eventSizesSQL, tenants, ids)
	if err != nil {
		return 0, translate("read the sizes of events", err)
	}
	sizes, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return 0, translate("read the sizes of events", err)
	}
	for total := 0; n < len(sizes) && (n == 0 || total+sizes[n] <= maxClaimBytes); n++ {
		total += sizes[n]
	}
	return n, db.readPublished(ctx, list[:n])
}
