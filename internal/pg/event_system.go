package pg

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// announceSQL stores events of the gateway's own. As events, nothing is owed for
// them: they are delivered as they are written.
const announceSQL = `
WITH sent AS (
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[])
        AS u (id, tenant_id, event_type, trace_id, request_id, correlation_id, envelope, body)
), stored AS (
    INSERT INTO eventhook.event (id, tenant_id, status, origin, event_type, content_type, body_size, trace_id, request_id, correlation_id, processed_at)
    SELECT id, tenant_id, 'delivered', 'system', event_type, 'application/json', length(body), trace_id, request_id, correlation_id, $9 FROM sent
)
INSERT INTO eventhook.event_payload (event_id, headers, body, envelope)
SELECT id, 'Content-Type: application/json', body, envelope::json FROM sent`

// announced is what a transaction has published of the gateway's own: its
// events by tenant, and how many deliveries of them are due.
type announced struct {
	events     map[eventhook.TenantID][]eventhook.EventID
	deliveries int
}

// notifyAnnounced wakes, after the commit, whom it concerns.
func (db *DB) notifyAnnounced(a announced) {
	if a.deliveries > 0 {
		db.hub.wake(deliveriesTopic)
	}
	for tenant, ids := range a.events {
		db.feed.eventsChanged(db.now(), tenant, ids...)
	}
}

// newSystemEvent is an event of the gateway's own about a tenant, with its data, that
// announceIn publishes.
func newSystemEvent(tenant eventhook.TenantID, kind string, data []byte) *eventhook.Event {
	of, _ := eventhook.FindSystemEventType(kind)
	return &eventhook.Event{
		TenantID: tenant, Origin: eventhook.OriginSystem, Status: eventhook.EventDelivered, EventType: kind, ContentType: "application/json",
		BodySize: len(data), Envelope: &eventhook.Envelope{Category: of.Category}, Payload: eventhook.Payload{Body: data},
	}
}

// announceIn publishes events of the gateway's own within the transaction that
// they tell of, which may be of several tenants: with new ids in their order and
// a trace that they share, and with a delivery to each subscription that wants
// one, but for those in without. The caller calls notifyAnnounced when it has
// committed.
func (db *DB) announceIn(ctx context.Context, tx pgx.Tx, events []*eventhook.Event, without map[eventhook.SubscriptionID]bool) (announced, error) {
	told := announced{events: map[eventhook.TenantID][]eventhook.EventID{}}
	if len(events) == 0 {
		return told, nil
	}
	now, trace := db.now(), eventhook.NewTraceID()
	for i, id := range newIDsInOrder[eventhook.Event](now, len(events)) {
		events[i].ID, events[i].TraceID = id, trace
		told.events[events[i].TenantID] = append(told.events[events[i].TenantID], id)
	}
	const most = 1000 // in one statement
	for part := range slices.Chunk(events, most) {
		if err := insertAnnounced(ctx, tx, part, now); err != nil {
			return told, fmt.Errorf("announce: %w", err)
		}
	}
	n, err := db.deliverAnnounced(ctx, tx, events, without, now)
	told.deliveries = n
	return told, err
}

func insertAnnounced(ctx context.Context, tx pgx.Tx, events []*eventhook.Event, now time.Time) error {
	n := len(events)
	ids, tenants, types, bodies := make([][16]byte, n), make([][16]byte, n), make([]string, n), make([][]byte, n)
	traces, requests, correlations, envelopes := make([]*string, n), make([]*string, n), make([]*string, n), make([]*string, n)
	for i, e := range events {
		ids[i], tenants[i], types[i], bodies[i] = e.ID, e.TenantID, e.EventType, e.Body
		traces[i], requests[i], correlations[i] = textElement(e.TraceID), textElement(e.RequestID), textElement(e.CorrelationID)
		raw, err := json.Marshal(e.Envelope)
		if err != nil {
			return err
		}
		envelopes[i] = jsonElement(raw)
	}
	_, err := tx.Exec(ctx, announceSQL, ids, tenants, types, traces, requests, correlations, envelopes, bodies, now)
	return err
}

// announcement is the body of an event about a resource.
type announcement struct {
	Tenant   string          `json:"tenant"`
	Resource announcedObject `json:"resource"`
	Actor    announcedObject `json:"actor"`
}

type announcedObject struct {
	Type string `json:"type"`
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
}

// announce makes an event of each change that was recorded and not yet written,
// and that the gateway's catalogue has, with its action as the type.
func (m *mutation) announce(ctx context.Context) error {
	var events []*eventhook.Event
	for _, entry := range m.entries {
		if _, isOwn := eventhook.FindSystemEventType(entry.Action); !isOwn {
			continue
		}
		e, err := m.systemEventOf(entry)
		if err != nil {
			return fmt.Errorf("announce %s: %w", entry.Action, err)
		}
		events = append(events, e)
	}
	var err error
	m.announced, err = m.db.announceIn(ctx, m.tx, events, m.created)
	return err
}

// systemEventOf is the event that says what has changed and who has changed it.
func (m *mutation) systemEventOf(of eventhook.AuditEntry) (*eventhook.Event, error) {
	actor := announcedObject{Type: string(of.Actor.Type), Name: of.Actor.Name}
	if !of.Actor.KeyID.IsZero() {
		actor.ID = of.Actor.KeyID.String()
	}
	body, err := json.Marshal(announcement{m.tenant.Slug, announcedObject{of.ResourceType, of.ResourceID, of.ResourceName}, actor})
	if err != nil {
		return nil, err
	}
	e := newSystemEvent(m.tenant.ID, of.Action, body)
	e.RequestID, e.CorrelationID = m.by.RequestID, m.correlation
	e.Envelope.Actor, err = json.Marshal(actor)
	return e, err
}

// Events of the gateway's own are rare, and made while something else is
// locked: so their subscribers are looked for in the database, and nothing is
// kept in mind for them.

// subscribersSQL finds who may want events of types that $2 are the patterns of.
// Index on tenant and id, or subscription_event_types.
const subscribersSQL = `
SELECT tenant_id, id, event_types, filter FROM eventhook.subscription
WHERE tenant_id = ANY($1) AND event_types && $2 AND status <> 'disabled'`

// insertAnnouncedDeliveriesSQL has them due at once, for whoever comes first.
const insertAnnouncedDeliveriesSQL = `
INSERT INTO eventhook.delivery (id, tenant_id, destination_id, event_id, due_at, status, event_type)
SELECT id, tenant_id, destination_id, event_id, $6, 'pending', event_type
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[]) AS u (id, tenant_id, destination_id, event_id, event_type)`

// subscriber is who may want events of a tenant.
type subscriber struct {
	id       eventhook.SubscriptionID
	patterns []string
	filter   json.RawMessage
}

// wants reports whether one of its patterns is one of those of an event's type.
func (s subscriber) wants(patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return slices.Contains(s.patterns, p) })
}

// patternsOf are all patterns that take events of a type.
func patternsOf(eventType string) []string {
	patterns := []string{eventType, "*"}
	for i, c := range eventType {
		if c == '.' {
			patterns = append(patterns, eventType[:i]+".*")
		}
	}
	return patterns
}

// deliverAnnounced makes the deliveries of events and counts them.
func (db *DB) deliverAnnounced(ctx context.Context, tx pgx.Tx, events []*eventhook.Event, without map[eventhook.SubscriptionID]bool, now time.Time) (int, error) {
	const most = 5000 // in one statement
	subscribers, err := db.subscribers(ctx, tx, events)
	if err != nil {
		return 0, fmt.Errorf("find subscribers: %w", err)
	}
	var deliveries []*eventhook.Delivery
	count := 0
	insert := func(least int) error {
		if len(deliveries) < least {
			return nil
		}
		count += len(deliveries)
		err := insertAnnouncedDeliveries(ctx, tx, deliveries, now)
		deliveries = deliveries[:0]
		return err
	}
	wanting := map[tenantType][]subscriber{}
	for _, e := range events {
		key := tenantType{e.TenantID, e.EventType}
		if _, ok := wanting[key]; !ok {
			wanting[key] = matchingSubscribers(subscribers[e.TenantID], e.EventType, without)
		}
		for _, s := range wanting[key] {
			if s.filter == nil || db.matches(s.filter, e) {
				to := eventhook.DestinationID(s.id)
				deliveries = append(deliveries, &eventhook.Delivery{ID: eventhook.DeliveryIDOf(e.ID, to), TenantID: e.TenantID, DestinationID: to, SubscriptionID: s.id, EventID: e.ID, EventType: e.EventType})
			}
		}
		if err := insert(most); err != nil {
			return count, err
		}
	}
	return count, insert(1)
}

type tenantType struct {
	tenant    eventhook.TenantID
	eventType string
}

// matchingSubscribers are the subscribers who want events of a type, as far as their
// patterns say.
func matchingSubscribers(list []subscriber, eventType string, without map[eventhook.SubscriptionID]bool) (wanting []subscriber) {
	if !eventhook.IsVisibleToTenants(eventType) {
		return nil
	}
	patterns := patternsOf(eventType)
	for _, s := range list {
		if s.wants(patterns) && !without[s.id] {
			wanting = append(wanting, s)
		}
	}
	return wanting
}

// subscribers are those of the events' tenants who may want some of them.
func (db *DB) subscribers(ctx context.Context, tx pgx.Tx, events []*eventhook.Event) (map[eventhook.TenantID][]subscriber, error) {
	tenants, patterns := map[eventhook.TenantID]bool{}, map[string]bool{}
	for _, e := range events {
		if !eventhook.IsVisibleToTenants(e.EventType) {
			continue
		}
		tenants[e.TenantID] = true
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
	var types []string
	var filter []byte
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&tenant), (*[16]byte)(&id), &types, &filter}, func() error {
		found[tenant] = append(found[tenant], subscriber{id, types, bytes.Clone(filter)})
		return nil
	})
	return found, err
}

func insertAnnouncedDeliveries(ctx context.Context, tx pgx.Tx, list []*eventhook.Delivery, now time.Time) error {
	n := len(list)
	ids, tenants, subscriptions, events, types := make([][16]byte, n), make([][16]byte, n), make([][16]byte, n), make([][16]byte, n), make([]string, n)
	for i, d := range list {
		ids[i], tenants[i], subscriptions[i], events[i], types[i] = d.ID, d.TenantID, d.SubscriptionID, d.EventID, d.EventType
	}
	_, err := tx.Exec(ctx, insertAnnouncedDeliveriesSQL, ids, tenants, subscriptions, events, types, now)
	return err
}
