package pg

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// destinationColumns holds the columns destination_id, route_id and target_index of a
// delivery.
type destinationColumns struct {
	id    [16]byte
	route *[16]byte
	index *int
}

func (c destinationColumns) isOfRoute() bool { return c.route != nil && c.index != nil }

// set sets the destination of a delivery.
func (c destinationColumns) set(d *eventhook.Delivery) {
	d.DestinationID = c.id
	if !c.isOfRoute() {
		d.SubscriptionID = c.id
		return
	}
	d.RouteID, d.TargetIndex = *c.route, *c.index
}

// readPublishedSQL reads the events of deliveries: published events, and events of a source
// for targets of its routes. Each id leads to its own partition. Primary keys.
const readPublishedSQL = `
SELECT u.id, e.source_id, coalesce(s.slug, ''), coalesce(e.origin, ''), coalesce(e.content_type, ''), coalesce(e.body_size, 0), coalesce(e.trace_id, replace(e.payload_of::text, '-', ''), ''),
    coalesce(e.request_id, ''), coalesce(e.correlation_id, ''), p.headers, p.body, coalesce(e.envelope, p.envelope)
FROM unnest($1::uuid[], $2::uuid[]) AS u (tenant_id, id)
LEFT JOIN eventhook.event e ON e.tenant_id = u.tenant_id AND e.id = u.id
LEFT JOIN eventhook.source s ON s.id = e.source_id
LEFT JOIN eventhook.event_payload p ON p.event_id = coalesce(e.payload_of, u.id)`

// readPublished sets the Event of each delivery. Deliveries of one event share it, and it is
// read once.
func (db *DB) readPublished(ctx context.Context, list []*eventhook.Delivery) error {
	events := make(map[eventhook.EventID]*eventhook.Event, len(list))
	var tenants, ids [][16]byte
	for _, d := range list {
		if events[d.EventID] == nil {
			events[d.EventID] = &eventhook.Event{ID: d.EventID, TenantID: d.TenantID, Status: eventhook.EventDelivered, EventType: d.EventType}
			tenants, ids = append(tenants, d.TenantID), append(ids, d.EventID)
		}
		d.Event = events[d.EventID]
	}
	rows, err := db.work.Query(ctx, readPublishedSQL, tenants, ids)
	if err != nil {
		return translate("read published events", err)
	}
	var id eventhook.EventID
	var e eventhook.Event
	var source *[16]byte
	var origin string
	var envelope []byte
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &source, &e.SourceSlug, &origin, &e.ContentType, &e.BodySize, &e.TraceID, &e.RequestID,
		&e.CorrelationID, &e.Headers, &e.Body, &envelope}, func() error {
		of := events[id]
		of.Origin, of.ContentType, of.BodySize, of.TraceID = eventhook.Origin(origin), e.ContentType, e.BodySize, e.TraceID
		of.RequestID, of.CorrelationID, of.SourceSlug, of.Payload = e.RequestID, e.CorrelationID, e.SourceSlug, e.Payload
		if source != nil {
			of.SourceID = *source
		}
		e.Payload = eventhook.Payload{}
		if envelope == nil {
			return nil
		}
		of.Envelope = new(eventhook.Envelope)
		if err := json.Unmarshal(envelope, of.Envelope); err != nil {
			return fmt.Errorf("envelope of %s: %w", id, err)
		}
		return nil
	})
	return translate("read published events", err)
}

// readBodiesSQL reads the bodies of requests. Primary key, one partition each.
const readBodiesSQL = `
SELECT p.event_id, p.body FROM unnest($1::uuid[]) AS u (id) JOIN eventhook.event_payload p ON p.event_id = u.id`

// readBodies reads the stored bodies of requests. It removes the event of a delivery whose
// body is missing: both are in the same partition, which is past its retention.
func (db *DB) readBodies(ctx context.Context, list []*eventhook.Delivery) error {
	var ids [][16]byte
	for _, d := range list {
		if d.Body != nil {
			ids = append(ids, d.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := db.work.Query(ctx, readBodiesSQL, ids)
	if err != nil {
		return translate("read bodies of requests", err)
	}
	bodies := make(map[eventhook.DeliveryID][]byte, len(ids))
	var id eventhook.DeliveryID
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &body}, func() error {
		bodies[id], body = body, nil
		return nil
	})
	for _, d := range list {
		if d.Body == nil {
			continue
		}
		if d.Body = bodies[d.ID]; d.Body == nil {
			d.Event = nil
		}
	}
	return translate("read bodies of requests", err)
}

var _ outbound.RouteReader = (*DB)(nil)

// routeToSendSQL reads a route and the settings of its source. It returns no row if the tenant
// is closed. Primary keys.
const routeToSendSQL = `
SELECT ` + routeColumns + `, settings
FROM eventhook.route r CROSS JOIN LATERAL (
    SELECT s.settings FROM eventhook.source s JOIN eventhook.tenant t ON t.id = s.tenant_id
    WHERE s.id = r.source_id AND t.status <> 'closed') s
WHERE r.id = $1`

// RouteToSend returns a route with the secrets of its targets, and the retry policy of its
// source. The error is KindNotFound if the route does not exist or its tenant is closed. A
// disabled route is returned as well.
func (db *DB) RouteToSend(ctx context.Context, id eventhook.RouteID) (r eventhook.Route, retry eventhook.RetryPolicy, err error) {
	const act = "read a route to send to"
	var settings []byte
	r, err = db.scanRouteRow(rowWithMore{db.work.QueryRow(ctx, routeToSendSQL, [16]byte(id)), []any{&settings}})
	if err != nil {
		return r, retry, translate(act, notFound(err, "route"))
	}
	var s eventhook.SourceSettings
	if err := json.Unmarshal(settings, &s); err != nil {
		return r, retry, fmt.Errorf("%s: %w", act, err)
	}
	return r, s.Retry, nil
}

// rowWithMore is a row whose last columns are scanned into more.
type rowWithMore struct {
	pgx.Row
	more []any
}

func (r rowWithMore) Scan(to ...any) error { return r.Row.Scan(append(to, r.more...)...) }

const deliveryColumns = `d.id, d.tenant_id, d.destination_id, d.route_id, d.target_index, d.event_id, d.event_type, d.status, d.attempts, d.retry_count,
    CASE WHEN d.status IN ('pending', 'failed') THEN nullif(d.due_at, 'infinity') END, coalesce(d.status_code, 0), coalesce(d.last_error, ''), d.completed_at, d.restarted_at,
    CASE WHEN d.status = 'acquired' THEN d.acquired_by END, CASE WHEN d.status = 'acquired' THEN d.due_at END`

func scanDelivery(row pgx.CollectableRow) (d eventhook.Delivery, err error) {
	return scanDeliveryAnd(row)
}

// scanDeliveryAnd scans deliveryColumns and, into more, the columns after them.
func scanDeliveryAnd(row pgx.CollectableRow, more ...any) (d eventhook.Delivery, err error) {
	var status string
	var to destinationColumns
	var holder *[16]byte
	err = row.Scan(append([]any{(*[16]byte)(&d.ID), (*[16]byte)(&d.TenantID), &to.id, &to.route, &to.index, (*[16]byte)(&d.EventID), &d.EventType,
		&status, &d.Attempts, &d.RetryCount, &d.NextAttemptAt, &d.StatusCode, &d.LastError, &d.CompletedAt, &d.RestartedAt, &holder, &d.AcquiredUntil},
		more...)...)
	if holder != nil {
		d.AcquiredBy = *holder
	}
	d.Status = eventhook.DeliveryStatus(status)
	to.set(&d)
	return d, err
}

// Delivery returns one of the tenant's deliveries with its attempts, oldest first. The history
// keeps only the latest attempts of a delivery with very many. The error is KindNotFound if
// the tenant has no such delivery. Primary key.
func (db *DB) Delivery(ctx context.Context, tenant eventhook.TenantID, id eventhook.DeliveryID) (eventhook.Delivery, []eventhook.Attempt, error) {
	rows, err := db.work.Query(ctx, `SELECT `+deliveryColumns+`, coalesce(d.history, '')
		FROM eventhook.delivery d WHERE d.id = $2 AND (d.tenant_id = $1 AND d.destination_id <> ALL(`+operatorSubscriptions+`))`, [16]byte(tenant), [16]byte(id))
	if err != nil {
		return eventhook.Delivery{}, nil, translate("read delivery", err)
	}
	var history string
	d, err := pgx.CollectExactlyOneRow(rows, func(r pgx.CollectableRow) (eventhook.Delivery, error) { return scanDeliveryAnd(r, &history) })
	if err != nil {
		return d, nil, translate("read delivery", notFound(err, "delivery"))
	}
	attempts, err := parseHistory(history)
	return d, attempts, err
}

// DeliveryToSend returns one of the tenant's deliveries with its event. The event is nil if its data
// is past the retention period. The error is KindNotFound if the tenant has no such delivery.
// Primary keys.
func (db *DB) DeliveryToSend(ctx context.Context, tenant eventhook.TenantID, id eventhook.DeliveryID) (eventhook.Delivery, error) {
	d, _, err := db.Delivery(ctx, tenant, id)
	if err != nil {
		return d, err
	}
	if err := db.readPublished(ctx, []*eventhook.Delivery{&d}); err != nil {
		return d, err
	}
	if d.Event.Headers == nil {
		d.Event = nil
	}
	return d, nil
}

// eventDeliveriesSQL reads the range of the primary key that holds the event's deliveries and
// hardly any other.
const eventDeliveriesSQL = `
SELECT ` + deliveryColumns + `, count(*) OVER ()
FROM eventhook.delivery d
WHERE d.tenant_id = $1 AND d.id >= $2 AND d.id <= $3 AND (d.event_id = $4) IS TRUE AND d.destination_id <> ALL(` + operatorSubscriptions + `)
ORDER BY d.id LIMIT $5`

// EventDeliveries lists the first limit deliveries of one of the tenant's events. count is the
// number of all its deliveries.
func (db *DB) EventDeliveries(ctx context.Context, tenant eventhook.TenantID, id eventhook.EventID, limit int) (list []eventhook.Delivery, count int, err error) {
	first, last := eventhook.DeliveryIDRange(id)
	rows, err := db.lists.Query(ctx, eventDeliveriesSQL, [16]byte(tenant), [16]byte(first), [16]byte(last), [16]byte(id), limit)
	if err != nil {
		return nil, 0, translate("list deliveries", err)
	}
	list, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (eventhook.Delivery, error) { return scanDeliveryAnd(r, &count) })
	return list, count, translate("list deliveries", err)
}

// Every list of deliveries has the parameters of deliveryListArgs; NULL and "" match
// everything. A list of the operator tenant is of one of its subscriptions, whose deliveries have
// the tenants of their events. Each of the conditions byDelivery… selects one index. Some repeat a condition of a
// partial index in a form that the planner can match with it.

// deliveryFilterSQL holds the conditions of a list in a form that no index can serve: (…) IS
// TRUE. The conditions before it choose the index.
const deliveryFilterSQL = `
    AND (d.tenant_id = @tenant OR ` + isOperatorTenant + `) IS TRUE AND (@subscription::uuid IS NULL OR (d.destination_id = @subscription) IS TRUE)
    AND (@status = '' OR (d.status = @status) IS TRUE) AND (@event::uuid IS NULL OR (d.event_id = @event) IS TRUE)
    AND (@destinations::uuid[] IS NULL OR (d.destination_id = ANY(@destinations)) IS TRUE)
    AND (` + isOperatorTenant + ` OR (d.destination_id = ANY(` + operatorSubscriptions + `)) IS NOT TRUE)`

const (
	inBounds    = `d.id >= @from AND d.id < @before`
	undelivered = ` AND d.status >= @status AND d.status <= @status AND d.status IN ('failed', 'dead')`

	byDeliveryTenant             = inBounds + ` AND d.tenant_id = @tenant`                                                 // primary key
	byDeliverySubscription       = inBounds + ` AND d.destination_id = @subscription AND d.attempts >= 0`                  // delivery_destination
	byDeliveryStatus             = inBounds + ` AND d.tenant_id = @tenant AND d.status = @status` + undelivered            // delivery_status
	byDeliverySubscriptionStatus = inBounds + ` AND d.destination_id = @subscription AND d.status = @status` + undelivered // delivery_destination_status

	newestDeliveries = ` ORDER BY d.id DESC LIMIT @limit`
)

// walkDeliveries returns a statement that reads deliveries from the newest to the oldest along
// the index that the condition selects, and filters the rows.
func walkDeliveries(condition string) string {
	return `
SELECT ` + deliveryColumns + ` FROM eventhook.delivery d WHERE ` + condition + deliveryFilterSQL + newestDeliveries
}

// openDeliveriesList returns a statement that lists open deliveries. The index delivery_due has
// them in another order, so the statement must read all of them to find the newest. If there
// are more than 10,000, it reads the deliveries that match condition by id instead, newest
// first: among so many open deliveries it finds enough soon.
func openDeliveriesList(destinations, condition string) string {
	return `
WITH open AS MATERIALIZED (
    SELECT d.tenant_id, d.id, d.status, s.id AS destination_id FROM ` + destinations + ` s CROSS JOIN LATERAL (
        SELECT d.tenant_id, d.id, d.status FROM eventhook.delivery d
        WHERE d.destination_id = s.id AND d.due_at IS NOT NULL AND (` + inBounds + `) IS TRUE
        ORDER BY d.due_at LIMIT 10001) d
    LIMIT 10001
), found AS MATERIALIZED (
    SELECT tenant_id, id FROM open WHERE (SELECT count(*) FROM open) <= 10000 AND status = @status
        AND (` + isOperatorTenant + ` OR tenant_id = @tenant AND (destination_id = ANY(` + operatorSubscriptions + `)) IS NOT TRUE)
    UNION ALL
    (SELECT d.tenant_id, d.id FROM eventhook.delivery d WHERE (SELECT count(*) FROM open) > 10000 AND ` + condition + deliveryFilterSQL + newestDeliveries + `)
)
SELECT ` + deliveryColumns + ` FROM (SELECT tenant_id, id FROM found ORDER BY id DESC LIMIT @limit) f
JOIN eventhook.delivery d ON d.tenant_id = f.tenant_id AND d.id = f.id` + newestDeliveries
}

// routeDestinations is a table expression with the ids of a route's destinations, @destinations.
const routeDestinations = `(SELECT unnest(@destinations::uuid[]) AS id)`

// walkDestinations returns a statement that reads the newest deliveries of each destination of
// a route, and lists the newest of these. A route has at most MaxTargets destinations.
func walkDestinations(condition string) string {
	return `
WITH found AS MATERIALIZED (
    SELECT d.id FROM ` + routeDestinations + ` s CROSS JOIN LATERAL (
        SELECT d.id FROM eventhook.delivery d WHERE ` + strings.ReplaceAll(condition, `d.destination_id = @subscription`, `d.destination_id = s.id`) + deliveryFilterSQL + newestDeliveries + `) d
    ORDER BY d.id DESC LIMIT @limit
)
SELECT ` + deliveryColumns + ` FROM (SELECT @tenant::uuid AS tenant_id, id FROM found ORDER BY id DESC) f
JOIN eventhook.delivery d ON d.tenant_id = f.tenant_id AND d.id = f.id` + newestDeliveries
}

// tenantDestinations is a table expression with the ids of a tenant's destinations: its
// subscriptions, and the targets of its routes whose effects are deliveries, with ids as
// Destination.ID computes them. Other targets yield NULL.
var tenantDestinations = `(SELECT id FROM eventhook.subscription WHERE tenant_id = @tenant
    UNION ALL
    SELECT CASE WHEN ` + isDestination(`t.target`) + ` THEN encode(set_byte(set_byte(h.id, 6, get_byte(h.id, 6) & 15 | 128), 8, get_byte(h.id, 8) & 63 | 128), 'hex')::uuid END
    FROM eventhook.source s JOIN eventhook.route r ON r.source_id = s.id
    CROSS JOIN jsonb_array_elements(r.targets) WITH ORDINALITY AS t (target, n)
    CROSS JOIN LATERAL (SELECT substr(sha256(uuid_send(r.id) || int8send(t.n - 1)), 1, 16) AS id) h
    WHERE s.tenant_id = @tenant)`

// deliveryLists holds the statement for each combination of filters.
var deliveryLists = struct {
	all, subscription, status, subscriptionStatus, open, subscriptionOpen, route, routeStatus, routeOpen string
}{
	all:                walkDeliveries(byDeliveryTenant),
	subscription:       walkDeliveries(byDeliverySubscription),
	status:             walkDeliveries(byDeliveryStatus),
	subscriptionStatus: walkDeliveries(byDeliverySubscriptionStatus),
	open:               openDeliveriesList(tenantDestinations, byDeliveryTenant),
	subscriptionOpen:   openDeliveriesList(`(SELECT @subscription::uuid AS id)`, byDeliverySubscription),
	route:              walkDestinations(byDeliverySubscription),
	routeStatus:        walkDestinations(byDeliverySubscriptionStatus),
	routeOpen:          openDeliveriesList(routeDestinations, byDeliveryTenant),
}

// deliveryList returns the statement that reads least for a filter.
func deliveryList(f eventhook.DeliveryFilter) string {
	all := &deliveryLists
	isOpen := f.Status == eventhook.DeliveryPending || f.Status == eventhook.DeliveryAcquired
	isUndelivered := f.Status == eventhook.DeliveryFailed || f.Status == eventhook.DeliveryDead
	choice := struct{ any, undelivered, open string }{all.all, all.status, all.open}
	switch {
	case !f.EventID.IsZero(): // deliveryBounds limits the ids to the event's
		return all.all
	case !f.RouteID.IsZero():
		choice.any, choice.undelivered, choice.open = all.route, all.routeStatus, all.routeOpen
	case !f.SubscriptionID.IsZero():
		choice.any, choice.undelivered, choice.open = all.subscription, all.subscriptionStatus, all.subscriptionOpen
	}
	switch {
	case isUndelivered:
		return choice.undelivered
	case isOpen:
		return choice.open
	}
	return choice.any // most deliveries are successful, so the statement finds enough of them soon
}

// destinationsArg returns the ids of a route's destinations as a parameter, or NULL without a
// route.
func destinationsArg(route eventhook.RouteID) any {
	if route.IsZero() {
		return nil
	}
	ids := make([][16]byte, eventhook.MaxTargets)
	for i := range ids {
		ids[i] = eventhook.Destination{RouteID: route, TargetIndex: i}.ID()
	}
	return ids
}

// Deliveries lists a tenant's deliveries, newest first. With any single filter, and with a
// subscription and a state together, the cost does not depend on the number of stored
// deliveries.
func (db *DB) Deliveries(ctx context.Context, tenant eventhook.TenantID, f eventhook.DeliveryFilter) (list []eventhook.Delivery, err error) {
	from, before := deliveryBounds(f)
	err = db.list(ctx, func(ctx context.Context, lists *listPool) error {
		list, err = listDeliveries(ctx, lists, tenant, f, from, before)
		return err
	})
	return list, translate("list deliveries", err)
}

func listDeliveries(ctx context.Context, lists batcher, tenant eventhook.TenantID, f eventhook.DeliveryFilter, from,
	before eventhook.DeliveryID) ([]eventhook.Delivery, error) {
	return readPlannedOnce(ctx, lists, deliveryList(f), scanDelivery, deliveryListArgs(tenant, f, from, before))
}

func deliveryListArgs(tenant eventhook.TenantID, f eventhook.DeliveryFilter, from, before eventhook.DeliveryID) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{"tenant": [16]byte(tenant), "from": [16]byte(from), "before": [16]byte(before), "limit": f.Limit,
		"subscription": uuidArg(f.SubscriptionID), "status": string(f.Status), "event": uuidArg(f.EventID), "destinations": destinationsArg(f.RouteID)}
}

// deliveryBounds converts a filter's times and its event to a range of ids: from is the first
// id, and before is greater than the last.
func deliveryBounds(f eventhook.DeliveryFilter) (from, before eventhook.DeliveryID) {
	before = cursorArg(f.Before).([16]byte) //nolint:forcetypeassert // cursorArg always returns this type
	if !f.CreatedAfter.IsZero() {
		from = eventhook.FirstID[eventhook.Delivery](f.CreatedAfter.Add(time.Millisecond))
	}
	if !f.CreatedBefore.IsZero() {
		before = earlier(before, eventhook.FirstID[eventhook.Delivery](f.CreatedBefore))
	}
	if !f.EventID.IsZero() {
		first, last := eventhook.DeliveryIDRange(f.EventID)
		if string(first[:]) > string(from[:]) {
			from = first
		}
		before = earlier(before, last) // last itself is not a valid id: its variant bits differ
	}
	return from, before
}

func earlier(x, y eventhook.DeliveryID) eventhook.DeliveryID {
	if string(y[:]) < string(x[:]) {
		return y
	}
	return x
}

// subscriptionStatsSQL reads a range of the primary key of the counts, and at most the first
// @max open deliveries of delivery_due.
const subscriptionStatsSQL = `
SELECT coalesce(u.delivered_hour, 0)::int8, coalesce(u.delivered, 0)::int8, coalesce(u.failed_hour, 0)::int8, coalesce(u.failed, 0)::int8,
    coalesce(u.dead_hour, 0)::int8, coalesce(u.dead, 0)::int8, coalesce(u.duration_ms, 0)::int8,
    w.waiting, w.oldest, coalesce((SELECT h.dead_in_row FROM eventhook.subscription_health h WHERE h.subscription_id = s.id), 0)
FROM eventhook.subscription s
CROSS JOIN LATERAL (
    SELECT sum(delivered) AS delivered, sum(delivered) FILTER (WHERE at >= @hour) AS delivered_hour,
        sum(failed) AS failed, sum(failed) FILTER (WHERE at >= @hour) AS failed_hour,
        sum(dead) AS dead, sum(dead) FILTER (WHERE at >= @hour) AS dead_hour, sum(duration_ms) AS duration_ms
    FROM eventhook.subscription_usage WHERE subscription_id = s.id AND at >= @day) u
CROSS JOIN LATERAL (
    SELECT count(*) AS waiting, nullif(min(due_at), 'infinity') AS oldest FROM (
        SELECT d.tenant_id, d.id, d.event_id, d.due_at FROM eventhook.delivery d
        WHERE d.destination_id = s.id AND d.due_at IS NOT NULL ORDER BY d.due_at LIMIT @max) d
    WHERE ` + countsForScopeSQL + `) w
WHERE s.id = @subscription AND (s.tenant_id = @tenant) IS TRUE`

// SubscriptionStats returns the recent counts of one of the tenant's subscriptions and the
// size of its queue, at a cost that does not depend on either. The error is KindNotFound if
// the tenant has no such subscription. The time spans begin at a multiple of five minutes,
// and the counts of the last seconds may be missing.
func (db *DB) SubscriptionStats(ctx context.Context, tenant eventhook.TenantID, id eventhook.SubscriptionID) (eventhook.SubscriptionStats, error) {
	return db.subscriptionStats(ctx, eventhook.Subscription{ID: id, TenantID: tenant}, "")
}

// CustomerStats is SubscriptionStats of a subscription, which the caller has read, for the customer of
// a scope that sees it: counts begin after the last time that the subscription received events of
// other scopes.
func (db *DB) CustomerStats(ctx context.Context, of eventhook.Subscription,
	scope string) (eventhook.SubscriptionStats, error) {
	return db.subscriptionStats(ctx, of, scope)
}

func (db *DB) subscriptionStats(ctx context.Context, of eventhook.Subscription,
	scope string) (eventhook.SubscriptionStats, error) {
	now := db.now()
	since := func(ago time.Duration) time.Time {
		at := now.Add(-ago)
		if of.NarrowedAt != nil && of.NarrowedAt.After(at) {
			at = of.NarrowedAt.Add(eventhook.SourceCountSpan)
		}
		return at.Truncate(eventhook.SourceCountSpan)
	}
	var s eventhook.SubscriptionStats
	var milliseconds int64
	args := pgx.StrictNamedArgs{"tenant": [16]byte(of.TenantID), "subscription": [16]byte(of.ID),
		"day": since(day), "hour": since(time.Hour), "max": eventhook.MaxWaitingCount}
	err := db.lists.QueryRow(ctx, subscriptionStatsSQL, addScope(args, scope, of.NarrowedAt)).Scan(
		&s.DeliveredLastHour, &s.DeliveredLast24h, &s.FailedLastHour, &s.FailedLast24h, &s.DeadLastHour, &s.DeadLast24h, &milliseconds,
		&s.Waiting, &s.OldestAt, &s.DeadInRow)
	if attempts := s.DeliveredLast24h + s.FailedLast24h; attempts > 0 {
		s.MeanDuration = time.Duration(milliseconds) * time.Millisecond / time.Duration(attempts)
	}
	return s, translate("read the subscription's statistics", notFound(err, "subscription"))
}
