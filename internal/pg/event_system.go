package pg

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// insertSystemEventsSQL stores system events. They are delivered from the start: the
// processor has nothing to do for them.
const insertSystemEventsSQL = `
WITH sent AS (
    SELECT * FROM unnest(@ids::uuid[], @tenants::uuid[], @types::text[], @traces::text[], @requests::text[], @correlations::text[], @envelopes::text[], @bodies::bytea[])
        AS u (id, tenant_id, event_type, trace_id, request_id, correlation_id, envelope, body)
), stored AS (
    INSERT INTO eventhook.event (id, tenant_id, status, origin, event_type, content_type, body_size, trace_id, request_id, correlation_id, processed_at)
    SELECT id, tenant_id, 'delivered', 'system', event_type, 'application/json', length(body), trace_id, request_id, correlation_id, @now FROM sent
)
INSERT INTO eventhook.event_payload (event_id, headers, body, envelope)
SELECT id, 'Content-Type: application/json', body, envelope::json FROM sent`

// announced lists the system events that a transaction has published, by tenant, and
// counts their deliveries.
type announced struct {
	events     map[eventhook.TenantID][]eventhook.EventID
	deliveries int
}

// notifyAnnounced wakes the dispatchers and the watchers of events, after the commit.
func (db *DB) notifyAnnounced(a announced) {
	if a.deliveries > 0 {
		db.hub.wake(deliveriesTopic)
	}
	for tenant, ids := range a.events {
		db.feed.eventsChanged(db.now(), tenant, ids...)
	}
}

// newSystemEvent returns a system event about a tenant for announceIn.
func newSystemEvent(tenant eventhook.TenantID, kind string, data []byte) *eventhook.Event {
	of, isKnown := eventhook.FindSystemEventType(kind)
	if !isKnown {
		of, _ = eventhook.FindLifecycleEventType(kind)
	}
	return &eventhook.Event{
		TenantID: tenant, Origin: eventhook.OriginSystem, Status: eventhook.EventDelivered, EventType: kind, ContentType: "application/json",
		BodySize: len(data), Envelope: &eventhook.Envelope{Category: of.Category}, Payload: eventhook.Payload{Body: data},
	}
}

// announceIn publishes system events in the transaction whose changes they report. The
// events may belong to several tenants. They get new ids in their order and, unless they
// have a trace, a common one, and each matching subscription that is not in excluded gets a delivery. The
// caller calls notifyAnnounced after the commit.
func (db *DB) announceIn(ctx context.Context, tx pgx.Tx, events []*eventhook.Event, excluded map[eventhook.SubscriptionID]bool) (announced, error) {
	published := announced{events: map[eventhook.TenantID][]eventhook.EventID{}}
	if len(events) == 0 {
		return published, nil
	}
	now, trace := db.now(), eventhook.NewTraceID()
	ids := newIDsInOrder[eventhook.Event](now, len(events))
	for i, e := range events {
		e.ID, e.TraceID = ids[i], cmp.Or(e.TraceID, trace)
		published.events[e.TenantID] = append(published.events[e.TenantID], e.ID)
	}
	const maxRows = 1000 // of a statement
	for part := range slices.Chunk(events, maxRows) {
		if err := insertSystemEvents(ctx, tx, part, now); err != nil {
			return published, fmt.Errorf("announce: %w", err)
		}
	}
	n, err := db.deliverAnnounced(ctx, tx, events, excluded, now)
	published.deliveries = n
	return published, err
}

func insertSystemEvents(ctx context.Context, tx pgx.Tx, events []*eventhook.Event, now time.Time) error {
	n := len(events)
	ids, tenants, types, bodies := make([][16]byte, n), make([][16]byte, n), make([]string, n), make([][]byte, n)
	traces, requests, correlations, envelopes := make([]*string, n), make([]*string, n), make([]*string, n), make([]*string, n)
	for i, e := range events {
		ids[i], tenants[i], types[i], bodies[i] = e.ID, e.TenantID, e.EventType, e.Body
		traces[i], requests[i], correlations[i] = textArg(e.TraceID), textArg(e.RequestID), textArg(e.CorrelationID)
		raw, err := json.Marshal(e.Envelope)
		if err != nil {
			return err
		}
		envelopes[i] = jsonArg(raw)
	}
	_, err := tx.Exec(ctx, insertSystemEventsSQL, pgx.StrictNamedArgs{"ids": ids, "tenants": tenants, "types": types, "traces": traces,
		"requests": requests, "correlations": correlations, "envelopes": envelopes, "bodies": bodies, "now": now})
	return err
}

// announcement is the body of a system event about a resource.
type announcement struct {
	Tenant   string          `json:"tenant"`
	Resource announcedObject `json:"resource"`
	Actor    announcedObject `json:"actor"`
	// DisabledBy and DisabledReason say why a subscription was disabled.
	DisabledBy     json.RawMessage `json:"disabled_by,omitempty"`
	DisabledReason json.RawMessage `json:"disabled_reason,omitempty"`
}

type announcedObject struct {
	Type string `json:"type"`
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
}

// announce publishes a system event for each recorded change whose action is in the
// catalogue of system event types. The action is the type of the event.
func (m *mutation) announce(ctx context.Context) error {
	var events []*eventhook.Event
	for _, entry := range m.entries {
		if _, isInCatalogue := eventhook.FindSystemEventType(entry.Action); !isInCatalogue {
			continue
		}
		e, err := m.systemEventOf(entry)
		if err != nil {
			return fmt.Errorf("announce %s: %w", entry.Action, err)
		}
		events = append(events, e)
	}
	if len(events) == 0 { // a bulk update has announced its changes
		return nil
	}
	var err error
	m.announced, err = m.db.announceIn(ctx, m.tx, events, m.created)
	return err
}

// systemEventOf returns the system event of an audit entry: the resource that changed
// and the actor.
func (m *mutation) systemEventOf(of eventhook.AuditEntry) (*eventhook.Event, error) {
	actor := announcedObject{Type: string(of.Actor.Type), Name: of.Actor.Name}
	if !of.Actor.KeyID.IsZero() {
		actor.ID = of.Actor.KeyID.String()
	}
	data := announcement{Tenant: m.tenant.Slug, Resource: announcedObject{of.ResourceType, of.ResourceID, of.ResourceName}, Actor: actor}
	if of.Action == statusAction(eventhook.SubscriptionDisabled) {
		data.DisabledBy, data.DisabledReason = of.NewValue("disabled_by"), of.NewValue("disabled_reason")
	}
	body, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	e := newSystemEvent(m.tenant.ID, of.Action, body)
	e.RequestID, e.CorrelationID, e.TraceID = m.by.RequestID, m.correlation, of.TraceID
	e.Envelope.TraceFlags, e.Envelope.ParentSpan = m.by.TraceFlags, m.by.ParentSpan
	e.Envelope.Actor, err = json.Marshal(actor)
	return e, err
}

// System events are rare, and their transactions hold locks. Therefore subscribers are read
// from the database in the same transaction, without a cache.

// subscribersSQL finds subscriptions that may match events whose types have patterns $2.
// System events have no scope, so a subscription with a scope_filter does not match them.
// Operator subscriptions are returned for each tenant whose events they receive. Index on
// tenant and id, or subscription_event_types.
const subscribersSQL = `
SELECT s.tenant_id, s.id, false, ` + subscriberColumns + ` FROM eventhook.subscription s
WHERE s.tenant_id = ANY($1) AND s.tenant_id <> ` + operatorID + subscriberConditions + `
UNION ALL
SELECT t.id, s.id, true, ` + subscriberColumns + ` FROM eventhook.subscription s JOIN eventhook.tenant t ON t.id = ANY($1)
WHERE ` + receivesFrom + subscriberConditions

const (
	subscriberColumns    = `s.event_types, s.filter::text, coalesce(s.settings->>'ordered_by', '')`
	subscriberConditions = ` AND s.event_types && $2 AND NOT s.settings ? 'scope_filter'
  AND (s.status <> 'disabled' OR s.disabled_by = 'failures' AND (s.settings->'recovery'->>'enabled' = 'false') IS NOT TRUE)`
)

// insertAnnouncedDeliveriesSQL stores deliveries without a lease, due now.
const insertAnnouncedDeliveriesSQL = `
INSERT INTO eventhook.delivery (id, tenant_id, destination_id, event_id, due_at, status, event_type)
SELECT id, tenant_id, destination_id, event_id, @now, 'pending', event_type
FROM unnest(@ids::uuid[], @tenants::uuid[], @destinations::uuid[], @events::uuid[], @types::text[]) AS u (id, tenant_id, destination_id, event_id, event_type)`

// subscriber is a subscription that may match events of a tenant.
type subscriber struct {
	id         eventhook.SubscriptionID
	isOperator bool // also receives events that are not visible to tenants
	patterns   []string
	filter     json.RawMessage
	order      string // SubscriptionSettings.OrderedBy
}

// hasPattern reports whether the subscription has one of the patterns.
func (s subscriber) hasPattern(patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return slices.Contains(s.patterns, p) })
}

// patternsOf returns all patterns that match system events of a type. Subscriptions must
// name lifecycle events: "*" does not match them.
func patternsOf(eventType string) []string {
	patterns := []string{eventType}
	if _, isLifecycle := eventhook.FindLifecycleEventType(eventType); !isLifecycle {
		patterns = append(patterns, "*")
	}
	for i, c := range eventType {
		if c == '.' {
			patterns = append(patterns, eventType[:i]+".*")
		}
	}
	return patterns
}

// deliverAnnounced stores the deliveries of system events and counts them.
func (db *DB) deliverAnnounced(ctx context.Context, tx pgx.Tx, events []*eventhook.Event, excluded map[eventhook.SubscriptionID]bool, now time.Time) (int, error) {
	const maxRows = 5000 // of a statement
	subscribers, err := db.subscribers(ctx, tx, events)
	if err != nil {
		return 0, fmt.Errorf("find subscribers: %w", err)
	}
	var deliveries []*eventhook.Delivery
	count := 0
	insert := func(minRows int) error {
		if len(deliveries) < minRows {
			return nil
		}
		count += len(deliveries)
		err := insertAnnouncedDeliveries(ctx, tx, deliveries, now)
		deliveries = deliveries[:0]
		return err
	}
	matching := map[tenantType][]subscriber{}
	for _, e := range events {
		key := tenantType{e.About(), e.EventType}
		if _, ok := matching[key]; !ok {
			matching[key] = matchingSubscribers(subscribers[e.About()], e.EventType, excluded)
		}
		for _, s := range matching[key] {
			if e.TenantID == eventhook.OperatorTenant && !s.isOperator { // the tenant named the type just now
				continue
			}
			if s.filter == nil || db.matches(s.filter, e) {
				to := eventhook.DestinationID(s.id)
				deliveries = append(deliveries, &eventhook.Delivery{ID: eventhook.DeliveryIDOf(e.ID, to), TenantID: e.TenantID,
					DestinationID: to, SubscriptionID: s.id, EventID: e.ID, EventType: e.EventType,
					OrderKey: db.orderKey(s.order, e)})
			}
		}
		if err := insert(maxRows); err != nil {
			return count, err
		}
	}
	return count, insert(1)
}

type tenantType struct {
	tenant    eventhook.TenantID
	eventType string
}

// matchingSubscribers returns the subscribers whose patterns match an event type, except
// subscribers in excluded. It does not evaluate their filters.
func matchingSubscribers(list []subscriber, eventType string, excluded map[eventhook.SubscriptionID]bool) (matching []subscriber) {
	patterns, isVisible := patternsOf(eventType), eventhook.IsVisibleToTenants(eventType)
	for _, s := range list {
		if (isVisible || s.isOperator) && s.hasPattern(patterns) && !excluded[s.id] {
			matching = append(matching, s)
		}
	}
	return matching
}

// subscribers returns the subscriptions of the events' tenants, and the operator
// subscriptions, whose patterns match one of the event types.
func (db *DB) subscribers(ctx context.Context, tx pgx.Tx, events []*eventhook.Event) (map[eventhook.TenantID][]subscriber, error) {
	tenants, patterns := map[eventhook.TenantID]bool{}, map[string]bool{}
	for _, e := range events {
		tenants[e.About()] = true
		for _, p := range patternsOf(e.EventType) {
			patterns[p] = true
		}
	}
	if len(tenants) == 0 {
		return nil, nil
	}
	var ids [][16]byte
	for t := range tenants {
		ids = append(ids, t)
	}
	var all []string
	for p := range patterns {
		all = append(all, p)
	}
	rows, err := tx.Query(ctx, subscribersSQL, ids, all)
	if err != nil {
		return nil, err
	}
	found := map[eventhook.TenantID][]subscriber{}
	var tenant eventhook.TenantID
	var id eventhook.SubscriptionID
	var isOperator bool
	var types []string
	var filter []byte
	var order string
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&tenant), (*[16]byte)(&id), &isOperator, &types, &filter, &order}, func() error {
		found[tenant] = append(found[tenant], subscriber{id, isOperator, types, bytes.Clone(filter), order})
		return nil
	})
	return found, err
}

func insertAnnouncedDeliveries(ctx context.Context, tx pgx.Tx, list []*eventhook.Delivery, now time.Time) error {
	list, ordered := splitOrdered(list)
	if err := insertOrdered(ctx, tx, ordered, now); err != nil {
		return err
	}
	n := len(list)
	ids, tenants, subscriptions, events, types := make([][16]byte, n), make([][16]byte, n), make([][16]byte, n), make([][16]byte, n), make([]string, n)
	for i, d := range list {
		ids[i], tenants[i], subscriptions[i], events[i], types[i] = d.ID, d.TenantID, d.SubscriptionID, d.EventID, d.EventType
	}
	_, err := tx.Exec(ctx, insertAnnouncedDeliveriesSQL, pgx.StrictNamedArgs{"ids": ids, "tenants": tenants, "destinations": subscriptions,
		"events": events, "types": types, "now": now})
	return err
}
