package pg

import (
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

// tellAnnounced wakes, after the commit, whom it concerns.
func (db *DB) tellAnnounced(a announced) {
	if a.deliveries > 0 {
		db.hub.wake(deliveriesTopic)
	}
	for tenant, ids := range a.events {
		db.watches.happened(db.now(), tenant, ids...)
	}
}

// ownEvent is an event of the gateway's own about a tenant, with its data, that
// announceIn publishes.
func ownEvent(tenant eventhook.TenantID, kind string, data []byte) *eventhook.Event {
	of, _ := eventhook.GatewayEventType(kind)
	return &eventhook.Event{
		TenantID: tenant, Origin: eventhook.OriginSystem, Status: eventhook.EventDelivered, EventType: kind, ContentType: "application/json",
		BodySize: len(data), Envelope: &eventhook.Envelope{Category: of.Category}, Payload: eventhook.Payload{Body: data},
	}
}

// announceIn publishes events of the gateway's own within the transaction that
// they tell of, which may be of several tenants: with new ids in their order and
// a trace that they share, and with a delivery to each subscription that wants
// one, but for those in without. The caller calls tellAnnounced when it has
// committed.
func (db *DB) announceIn(ctx context.Context, tx pgx.Tx, events []*eventhook.Event, without map[eventhook.SubscriptionID]bool) (announced, error) {
	told := announced{events: map[eventhook.TenantID][]eventhook.EventID{}}
	if len(events) == 0 {
		return told, nil
	}
	now, trace := db.now(), eventhook.NewTraceID()
	for i, id := range idsInOrder[eventhook.Event](now, len(events)) {
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
func (m *manager) announce(ctx context.Context) error {
	var events []*eventhook.Event
	for _, entry := range m.entries {
		if _, isOwn := eventhook.GatewayEventType(entry.Action); !isOwn {
			continue
		}
		e, err := m.tellOf(entry)
		if err != nil {
			return fmt.Errorf("announce %s: %w", entry.Action, err)
		}
		events = append(events, e)
	}
	var err error
	m.announced, err = m.db.announceIn(ctx, m.tx, events, m.made)
	return err
}

// tellOf is the event that says what has changed and who has changed it.
func (m *manager) tellOf(of eventhook.AuditEntry) (*eventhook.Event, error) {
	actor := announcedObject{Type: string(of.Actor.Type), Name: of.Actor.Name}
	if !of.Actor.KeyID.IsZero() {
		actor.ID = of.Actor.KeyID.String()
	}
	body, err := json.Marshal(announcement{m.tenant.Slug, announcedObject{of.ResourceType, of.ResourceID, of.ResourceName}, actor})
	if err != nil {
		return nil, err
	}
	e := ownEvent(m.tenant.ID, of.Action, body)
	e.RequestID, e.CorrelationID = m.by.RequestID, m.correlation
	e.Envelope.Actor, err = json.Marshal(actor)
	return e, err
}
