package pg

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// takeLifecycleSQL takes the oldest stored changes of up to 20 tenants, 50 of each, so that
// a tenant with many changes does not delay the events of other tenants. It begins after
// tenant $1. Primary keys.
const takeLifecycleSQL = `
WITH RECURSIVE next_tenant AS (
    (SELECT tenant_id FROM eventhook.lifecycle_change WHERE tenant_id > $1 ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT n.tenant_id FROM next_tenant t CROSS JOIN LATERAL (
        SELECT tenant_id FROM eventhook.lifecycle_change WHERE tenant_id > t.tenant_id ORDER BY tenant_id LIMIT 1) n
), first AS MATERIALIZED (
    SELECT c.* FROM (SELECT tenant_id FROM next_tenant LIMIT 20) t CROSS JOIN LATERAL (
        SELECT tenant_id, sequence FROM eventhook.lifecycle_change WHERE tenant_id = t.tenant_id ORDER BY sequence LIMIT 50) c
), taken AS (
    DELETE FROM eventhook.lifecycle_change c USING first f WHERE c.tenant_id = f.tenant_id AND c.sequence = f.sequence RETURNING c.*
)
SELECT c.tenant_id, c.sequence, c.occurred_at, c.event_type, c.execution_id, c.promise_id, coalesce(c.event_id, x.event_id),
    coalesce(c.attempt, 0), coalesce(c.max_attempts, 0), coalesce(c.type, ''), coalesce(c.kind, ''), coalesce(c.queue, ''), c.status,
    coalesce(c.key, ''), coalesce(c.error, ''), coalesce(c.trace_id, x.trace_id, ''),
    x.id IS NOT NULL AND (c.promise_id IS NULL OR c.trace_id IS NULL), coalesce(x.trace_flags, '')
FROM taken c LEFT JOIN eventhook.execution x ON x.id = c.execution_id`

// lifecycleLock is the advisory lock of the transaction that publishes stored changes, so
// that the events of an execution keep their order.
const lifecycleLock = 0x65766c63 // "evlc"

// lifecycleChange is a stored change of an execution or a promise.
type lifecycleChange struct {
	tenant     eventhook.TenantID
	sequence   int64
	occurredAt time.Time
	eventType  string
	promise    eventhook.PromiseID
	status     string
	execution  eventhook.Execution // of a promise: its workflow, with id and trace only
	isBelow    bool                // the execution, whose trace the event has
}

// PublishLifecycle publishes the events of stored changes, oldest first for each tenant, and
// returns the number of changes. An event that only operator subscriptions name belongs to the
// operator tenant, so that its tenant does not see that the operator listens. It publishes nothing
// while another instance publishes. An event and
// the deletion of its change are one transaction, so each change has one event.
func (db *DB) PublishLifecycle(ctx context.Context) (n int, err error) {
	var isAny bool
	if err := db.work.QueryRow(ctx, `SELECT EXISTS (SELECT FROM eventhook.lifecycle_change)`).Scan(&isAny); err != nil || !isAny {
		return 0, translate("publish lifecycle events", err)
	}
	var published announced
	err = db.inTx(ctx, "publish lifecycle events", func(tx pgx.Tx) error {
		var isLocked bool
		if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, lifecycleLock).Scan(&isLocked); err != nil || !isLocked {
			return err
		}
		changes, err := db.takeLifecycle(ctx, tx)
		if err != nil {
			return err
		}
		n = len(changes)
		events, err := lifecycleEvents(ctx, tx, changes)
		if err != nil {
			return err
		}
		published, err = db.announceIn(ctx, tx, events, nil)
		return err
	})
	if err != nil {
		return 0, err
	}
	db.notifyAnnounced(published)
	return n, nil
}

// takeLifecycle deletes stored changes and returns them, each tenant's in their order. The
// next call begins with the next tenants.
func (db *DB) takeLifecycle(ctx context.Context, tx pgx.Tx) ([]lifecycleChange, error) {
	var after eventhook.TenantID
	if last := db.lifecycleAfter.Load(); last != nil {
		after = *last
	}
	list, err := takeLifecycleAfter(ctx, tx, after)
	if err == nil && len(list) == 0 && !after.IsZero() {
		list, err = takeLifecycleAfter(ctx, tx, eventhook.TenantID{})
	}
	slices.SortFunc(list, func(x, y lifecycleChange) int { return int(x.sequence - y.sequence) })
	last := eventhook.TenantID{}
	for _, c := range list {
		if slices.Compare(c.tenant[:], last[:]) > 0 {
			last = c.tenant
		}
	}
	db.lifecycleAfter.Store(&last)
	return list, err
}

func takeLifecycleAfter(ctx context.Context, tx pgx.Tx, tenant eventhook.TenantID) ([]lifecycleChange, error) {
	rows, err := tx.Query(ctx, takeLifecycleSQL, [16]byte(tenant))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanLifecycle)
}

func scanLifecycle(row pgx.CollectableRow) (c lifecycleChange, err error) {
	var execution, promise, event *[16]byte
	x := &c.execution
	err = row.Scan((*[16]byte)(&c.tenant), &c.sequence, &c.occurredAt, &c.eventType, &execution, &promise, &event,
		&x.Attempt, &x.MaxAttempts, (*string)(&x.Type), &x.Kind, &x.Queue, &c.status, &x.IdempotencyKey, &x.Error, &x.TraceID, &c.isBelow, &x.TraceFlags)
	for to, id := range map[*[16]byte]*[16]byte{(*[16]byte)(&x.ID): execution, (*[16]byte)(&c.promise): promise,
		(*[16]byte)(&x.EventID): event} {
		if id != nil {
			*to = *id
		}
	}
	return c, err
}

// lifecycleData is the data of a lifecycle event. It has no inputs, outputs and values,
// which may be large: the API returns them by the id.
type lifecycleData struct {
	ID                  string    `json:"id"`
	Type                string    `json:"type"`
	Kind                string    `json:"kind,omitempty"`
	Queue               string    `json:"queue,omitempty"`
	Status              string    `json:"status"`
	Attempt             int       `json:"attempt,omitempty"`
	MaxAttempts         int       `json:"max_attempts,omitempty"`
	Error               string    `json:"error,omitempty"`
	IdempotencyKey      string    `json:"idempotency_key,omitempty"`
	WorkflowExecutionID string    `json:"workflow_execution_id,omitempty"`
	EventID             string    `json:"event_id,omitempty"`
	TraceID             string    `json:"trace_id,omitempty"`
	OccurredAt          time.Time `json:"occurred_at"`
}

// event returns the event of a change. Its correlation id is the event that led to the work or
// settled the promise, and it has the trace of that event.
func (c lifecycleChange) event() (*eventhook.Event, error) {
	x := c.execution
	data := lifecycleData{ID: x.ID.String(), Type: string(x.Type), Kind: x.Kind, Queue: x.Queue, Status: c.status, Attempt: x.Attempt,
		MaxAttempts: x.MaxAttempts,
		Error:       x.Error, IdempotencyKey: x.IdempotencyKey, OccurredAt: c.occurredAt.UTC()}
	if !c.promise.IsZero() {
		data.ID, data.Type = c.promise.String(), "promise"
		if !x.ID.IsZero() {
			data.WorkflowExecutionID = x.ID.String()
		}
	}
	if !x.EventID.IsZero() {
		data.EventID = x.EventID.String()
	}
	if data.TraceID = hex.EncodeToString(c.promise[:]); !x.ID.IsZero() || x.TraceID != "" {
		data.TraceID = x.Trace()
	}
	body, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	e := newSystemEvent(c.tenant, c.eventType, body)
	e.TraceID, e.CorrelationID = data.TraceID, data.EventID
	if c.isBelow {
		e.Envelope.TraceFlags, e.Envelope.ParentSpan = x.TraceFlags, x.ID.SpanID().String()
	}
	return e, nil
}
