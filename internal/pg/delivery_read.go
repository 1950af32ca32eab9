package pg

import (
	"context"
	"encoding/json"
	"fmt"

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
