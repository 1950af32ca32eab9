package pg

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// generationsSQL tells the generations of tenants' subscriptions; who never had
// any is left out. Primary key.
const generationsSQL = `
SELECT g.tenant_id, g.generation FROM unnest($1::uuid[]) AS u (id) JOIN eventhook.subscription_generation g ON g.tenant_id = u.id`

// insertPublicationsSQL stores the events that routes make of others, with their
// deliveries. As events, nothing is owed for them: they are delivered as they are
// written.
var insertPublicationsSQL = insertPublications("", "")

// insertPublicationsOnceSQL is for events that stay leased, see
// insertExecutionsOnceSQL: what they publish may be written again. Their
// deliveries are written with them or not at all, since by then they may be
// matched anew and be others. What was stored is asked as publishSQL does.
var insertPublicationsOnceSQL = insertPublications(`
    ON CONFLICT DO NOTHING
    RETURNING id`, `
    WHERE (event_id IN (SELECT id FROM stored)) IS TRUE`)

func insertPublications(ifNew, ofStored string) string {
	payloads := ""
	if ifNew != "" {
		payloads = `
ON CONFLICT DO NOTHING`
	}
	return `
WITH stored AS (
    INSERT INTO eventhook.event (id, tenant_id, status, origin, event_type, content_type, body_size, idempotency_key, trace_id, request_id, correlation_id, processed_at)
    SELECT id, tenant_id, 'delivered', 'route', event_type, 'application/json', length(body), key, trace_id, request_id, correlation_id, $9::timestamptz
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[])
        AS u (id, tenant_id, event_type, key, trace_id, request_id, correlation_id, body)` + ifNew + `
), owed AS (
    INSERT INTO eventhook.delivery (id, tenant_id, destination_id, event_id, event_type, due_at, status, lease_token)
    SELECT id, tenant_id, destination_id, event_id, event_type, coalesce(due_at, $9::timestamptz),
        CASE WHEN due_at IS NULL THEN 'pending' ELSE 'acquired' END, CASE WHEN due_at IS NULL THEN 0 ELSE 1 END
    FROM unnest($11::uuid[], $12::uuid[], $13::uuid[], $14::uuid[], $15::text[], $16::timestamptz[])
        AS u (id, tenant_id, destination_id, event_id, event_type, due_at)` + ofStored + `
)
INSERT INTO eventhook.event_payload (event_id, headers, body, envelope)
SELECT id, 'Content-Type: application/json', body, envelope::json FROM unnest($1::uuid[], $8::bytea[], $10::text[]) AS u (id, body, envelope)` + payloads
}

var publicationOIDs = []uint32{
	uuidOID, uuidOID, textOID, textOID, textOID, textOID, textOID, byteaOID, 0,
	textOID, uuidOID, uuidOID, uuidOID, uuidOID, textOID, timeOID,
}

const publicationDeliveries = 10 // the first parameter of deliveries

// queueGenerations asks for the generations of the tenants that publish, and
// reports whether there are any.
func queueGenerations(b *pgconn.Batch, c *columns, batch []*effects.Settlement) bool {
	c.reset()
	asked := map[eventhook.TenantID]bool{}
	for _, s := range batch {
		if !asked[s.Event.TenantID] && slices.ContainsFunc(s.Actions, func(a effects.PlannedAction) bool { return isPublished(&a) }) {
			asked[s.Event.TenantID] = true
			c.uuid(0, s.Event.TenantID)
		}
	}
	if len(asked) == 0 {
		return false
	}
	b.ExecPrepared("generations", c.encoded(), c.formats, binaryResults)
	return true
}

// isStale reports whether something was published to subscriptions that have
// changed since, by the generations that the database answered.
func isStale(batch []*effects.Settlement, rows [][][]byte) bool {
	current := make(map[eventhook.TenantID]int64, len(rows))
	for _, row := range rows {
		current[eventhook.TenantID(row[0])] = int64(binary.BigEndian.Uint64(row[1]))
	}
	for _, s := range batch {
		for i := range s.Actions {
			if a := &s.Actions[i]; isPublished(a) && a.Effect.Publication.Generation != current[s.Event.TenantID] {
				return true
			}
		}
	}
	return false
}

// queuePublications adds the events that the batch publishes. They belong
// together with what caused them: by its correlation id or, where it has none,
// by its own id.
func queuePublications(b *pgconn.Batch, c *columns, batch []*effects.Settlement, now time.Time) error {
	c.reset()
	for _, s := range batch {
		for i := range s.Actions {
			if !isPublished(&s.Actions[i]) {
				continue
			}
			e, p := s.Event, s.Actions[i].Effect.Publication
			envelope, err := envelopeJSON(p.Envelope)
			if err != nil {
				return fmt.Errorf("publish %s: %w", p.ID, err)
			}
			c.uuid(0, p.ID)
			c.uuid(1, e.TenantID)
			c.text(2, p.EventType)
			c.optional(3, p.IdempotencyKey)
			c.optional(4, e.TraceID)
			c.optional(5, e.RequestID)
			c.text(6, cmp.Or(e.CorrelationID, e.ID.String()))
			c.bytes(7, p.Data)
			c.optional(9, envelope)
			for _, d := range p.Deliveries {
				encodeDelivery(c, publicationDeliveries, e.TenantID, p.ID, p.EventType, d)
			}
			concludeDeliveries(e.TenantID, p.ID, p.EventType, p.Deliveries)
		}
	}
	statement := "insert_publications"
	if slices.ContainsFunc(batch, isHeld) {
		statement = "insert_publications_once"
	}
	queue(b, statement, c, 8, now)
	return nil
}

// isPublished reports whether this settle has published an action's event.
func isPublished(a *effects.PlannedAction) bool {
	return a.Effect.Publication != nil && a.Status == eventhook.ActionSuccess && !a.IsSettled
}
