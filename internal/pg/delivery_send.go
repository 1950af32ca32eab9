package pg

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/replay"
)

var _ replay.SendStore = (*DB)(nil)

// insertSentSQL creates the delivery of a stored event, unless it exists. It checks in the same
// transaction that the payload exists; see restartDeliveriesSQL. Primary keys.
const insertSentSQL = `
INSERT INTO eventhook.delivery (id, tenant_id, destination_id, event_id, event_type, due_at, restarted_at, status)
SELECT @id::uuid, @tenant::uuid, @destination::uuid, @event::uuid, @type, @now::timestamptz, @now, 'pending'
WHERE EXISTS (SELECT FROM eventhook.event e JOIN eventhook.event_payload p ON p.event_id = coalesce(e.payload_of, e.id)
    WHERE e.tenant_id = @tenant AND e.id = @event)
ON CONFLICT DO NOTHING`

// restartSentSQL sets the age of an ordered delivery that the transaction has created: it counts
// from now, however old the event is. Primary key.
const restartSentSQL = `
UPDATE eventhook.delivery d SET restarted_at = $3
WHERE d.tenant_id = $1 AND d.id = $2 AND d.restarted_at IS NULL AND d.xmin = pg_current_xact_id()::xid`

// sendableSQL locks a subscription that deliveries can be created for, as a share, so that it is
// neither disabled nor deleted before the transaction ends. Primary key.
const sendableSQL = `SELECT status FROM eventhook.subscription WHERE id = $1 AND tenant_id = $2 FOR SHARE`

// deliveryStatusSQL reads the state of a delivery. Primary key.
const deliveryStatusSQL = `SELECT status FROM eventhook.delivery WHERE tenant_id = $1 AND id = $2`

var (
	errSubscriptionDisabled = &eventhook.Error{Kind: eventhook.KindConflict, Message: "The subscription is disabled; enable it first."}
	errCannotQueue          = &eventhook.Error{Kind: eventhook.KindConflict,
		Message: "The delivery cannot be queued: its event's data is past the retention period, or another request is changing it."}
)

// QueueDelivery makes a delivery to a subscription due now, with all its retries, and writes an
// audit entry. It creates the delivery if it does not exist, and leaves it as it is if it is
// pending or acquired. The error is KindNotFound if the subscription was deleted, and
// KindConflict if it is disabled, or if the event's data is past its retention.
func (db *DB) QueueDelivery(ctx context.Context, by eventhook.Actor, to eventhook.Subscription, d *eventhook.Delivery) (created bool, err error) {
	isQueued := false
	err = db.mutate(ctx, "send an event", by, to.TenantID, func(m *mutation) error {
		isQueued, created, err = m.queueDelivery(ctx, d)
		if err != nil || !isQueued {
			return err
		}
		changes := []eventhook.FieldChange{{Field: "event_id", From: []byte("null"), To: []byte(`"` + d.EventID.String() + `"`)},
			{Field: "delivery_id", From: []byte("null"), To: []byte(`"` + d.ID.String() + `"`)}}
		m.recordChanges("subscription.event_sent", resource{"subscription", to.ID.String(), to.Name}, changes)
		return nil
	})
	if err == nil && isQueued {
		db.WakeDeliveries()
	}
	return created, err
}

// queueDelivery locks the order and the delivery before the subscription, as a settlement does.
func (m *mutation) queueDelivery(ctx context.Context, d *eventhook.Delivery) (queued, created bool, err error) {
	now := m.db.now()
	restarted, _, err := restartInTx(ctx, m.tx, restart{tenant: d.TenantID, now: now, rows: []rowKey{{d.TenantID, d.ID}},
		statuses: restartableStatuses([]eventhook.DeliveryStatus{eventhook.DeliveryFailed, eventhook.DeliveryDead, eventhook.DeliverySuccess})})
	if err != nil || len(restarted) > 0 {
		return len(restarted) > 0, false, err
	}
	status, err := m.deliveryStatus(ctx, d)
	switch {
	case err != nil:
		return false, false, err
	case status == eventhook.DeliveryPending || status == eventhook.DeliveryAcquired:
		return false, false, m.checkSendable(ctx, d)
	case status == "":
		if err := m.insertSent(ctx, d, now); err != nil {
			return false, false, err
		}
		if status, err = m.deliveryStatus(ctx, d); err != nil {
			return false, false, err
		}
		created = status != ""
	}
	if err := m.checkSendable(ctx, d); err != nil {
		return false, false, err
	}
	if !created {
		return false, false, errCannotQueue
	}
	return true, true, nil
}

// insertSent creates the delivery of a stored event, unless it exists.
func (m *mutation) insertSent(ctx context.Context, d *eventhook.Delivery, now time.Time) error {
	if !isOrdered(d) {
		_, err := m.tx.Exec(ctx, insertSentSQL, pgx.StrictNamedArgs{"id": [16]byte(d.ID), "tenant": [16]byte(d.TenantID),
			"destination": [16]byte(d.DestinationID), "event": [16]byte(d.EventID), "type": d.EventType, "now": now})
		return err
	}
	if err := insertOrdered(ctx, m.tx, []*eventhook.Delivery{d}, now); err != nil {
		return err
	}
	_, err := m.tx.Exec(ctx, restartSentSQL, [16]byte(d.TenantID), [16]byte(d.ID), now)
	return err
}

// deliveryStatus returns the state of a delivery, "" if it does not exist.
func (m *mutation) deliveryStatus(ctx context.Context, d *eventhook.Delivery) (status eventhook.DeliveryStatus, err error) {
	err = m.tx.QueryRow(ctx, deliveryStatusSQL, [16]byte(d.TenantID), [16]byte(d.ID)).Scan((*string)(&status))
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return status, err
}

// checkSendable returns an error unless the subscription of a delivery exists and is not disabled.
func (m *mutation) checkSendable(ctx context.Context, d *eventhook.Delivery) error {
	var status eventhook.SubscriptionStatus
	err := m.tx.QueryRow(ctx, sendableSQL, [16]byte(d.SubscriptionID), [16]byte(d.TenantID)).Scan((*string)(&status))
	if err == nil && status == eventhook.SubscriptionDisabled {
		return errSubscriptionDisabled
	}
	return notFound(err, "subscription")
}
