package gatewaytest

import (
	"encoding/json"
	"time"

	"github.com/eventhook/eventhook"
)

// PastEvent is an event that ended before the test.
type PastEvent struct {
	At         time.Time
	Type       string
	Source     string // slug; "" for an event that a program published
	Status     string // such as delivered or unrouted
	Error      string // of the event
	Body       string
	Deliveries []PastDelivery
}

// PastDelivery is a delivery of a PastEvent. The last attempt decides whether it succeeded or is dead.
type PastDelivery struct {
	Subscription string // id
	Attempts     []PastAttempt
}

// PastAttempt is an attempt of a PastDelivery.
type PastAttempt struct {
	After   time.Duration // since the event
	Took    time.Duration
	Status  int
	Error   string // "" for a success
	Excerpt string // of the answer
}

// pastRow is a PastEvent or a PastDelivery as JSON for the statements below.
type pastRow map[string]any

const pastEventsSQL = `
WITH n AS (
    SELECT n.*, t.id AS tenant, s.id AS source_id
    FROM json_to_recordset($2) AS n (id uuid, at timestamptz, type text, source text, status text, error text, body text)
    JOIN eventhook.tenant t ON t.slug = $1 LEFT JOIN eventhook.source s ON s.tenant_id = t.id AND s.slug = n.source
), payloads AS (
    INSERT INTO eventhook.event_payload (event_id, headers, body, envelope)
    SELECT id, 'Content-Type: application/json', body::bytea, CASE WHEN source_id IS NULL THEN '{}'::json END FROM n
)
INSERT INTO eventhook.event (id, tenant_id, source_id, processed_at, body_size, status, origin, event_type, content_type,
    source_ip, last_error)
SELECT id, tenant, source_id, at + interval '3 ms', length(body), status,
    CASE WHEN source_id IS NULL THEN 'api' ELSE 'source' END, type, 'application/json', '203.0.113.7', nullif(error, '')
FROM n`

const pastDeliveriesSQL = `
INSERT INTO eventhook.delivery (id, tenant_id, destination_id, event_id, completed_at, attempts, retry_count, status_code,
    status, event_type, last_error, history)
SELECT n.id, t.id, n.subscription, n.event, n.at, n.attempts, n.attempts - 1, nullif(n.code, 0),
    CASE n.error WHEN '' THEN 'success' ELSE 'dead' END, n.type, nullif(n.error, ''), n.history
FROM json_to_recordset($2) AS n (id uuid, subscription uuid, event uuid, at timestamptz, attempts int, code int, type text,
    error text, history text)
JOIN eventhook.tenant t ON t.slug = $1`

// SeedPast inserts events with their deliveries.
func (n *Tenant) SeedPast(list []PastEvent) {
	n.t.Helper()
	var events, deliveries []pastRow
	for _, e := range list {
		id := eventhook.NewID[PastEvent](e.At).String()
		events = append(events, pastRow{"id": id, "at": e.At, "type": e.Type, "source": e.Source, "status": e.Status,
			"error": e.Error, "body": e.Body})
		for _, d := range e.Deliveries {
			deliveries = append(deliveries, d.row(e, id))
		}
	}
	conn := n.connect()
	n.exec(conn, pastEventsSQL, events)
	n.exec(conn, pastDeliveriesSQL, deliveries)
}

// row returns the delivery of an event.
func (d PastDelivery) row(e PastEvent, event string) pastRow {
	last, history := d.Attempts[len(d.Attempts)-1], ""
	for _, a := range d.Attempts {
		line := pastRow{"t": e.At.Add(a.After).UnixMicro(), "d": a.Took.Milliseconds(), "s": a.Status}
		if a.Error != "" {
			line["e"], line["c"], line["x"] = a.Error, "http_status", a.Excerpt
		}
		text, _ := json.Marshal(line) // texts and numbers have a JSON form
		history += string(text) + "\n"
	}
	return pastRow{"id": eventhook.NewID[PastDelivery](e.At).String(), "subscription": d.Subscription, "event": event,
		"at": e.At.Add(last.After + last.Took), "attempts": len(d.Attempts), "code": last.Status, "type": e.Type,
		"error": last.Error, "history": history}
}

// Hurry makes the waiting work of a kind as if attempts had failed.
func (n *Tenant) Hurry(kind string, attempts int) {
	n.t.Helper()
	n.exec(n.connect(), `UPDATE eventhook.execution e SET attempt = $3 FROM eventhook.tenant t
WHERE t.slug = $1 AND e.tenant_id = t.id AND e.kind = $2 AND e.status = 'pending'`, kind, attempts)
}

// FailSince moves the beginning of the present outage of a subscription into the past.
func (n *Tenant) FailSince(subscription string, ago time.Duration) {
	n.t.Helper()
	n.exec(n.connect(), `UPDATE eventhook.subscription_health h
SET failing_since = now() - $3::interval, circuit_opened_at = now() - $3::interval FROM eventhook.tenant t WHERE t.slug = $1 AND h.subscription_id = $2`, subscription, ago)
}
