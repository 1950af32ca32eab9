package pg

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// deadCount holds the effect of a batch on a subscription's count of dead deliveries in a row.
// Deliveries and successes count in the order of the batch.
type deadCount struct {
	beforeSuccess int  // dead deliveries before any success; they add to the stored count
	sinceSuccess  int  // dead deliveries since the last success
	longest       int  // the longest series after the first success
	hasSuccess    bool // the batch has a successful delivery

	since   time.Time                      // the first failure behind the dead deliveries since the last success; zero: none is dead
	limit   int                            // the count that disables the subscription; 0: never
	disable string                         // the reason to disable the subscription at once; "" to leave it enabled
	list    []*outbound.DeliverySettlement // the dead deliveries
}

// deadCountsOf returns the counts of the subscriptions that a batch may disable. It ignores
// lost settlements.
func deadCountsOf(batch, lost []*outbound.DeliverySettlement) map[eventhook.SubscriptionID]*deadCount {
	counts := map[eventhook.SubscriptionID]*deadCount{}
	for _, s := range batch {
		if affectsSubscription(s) {
			counts[s.Delivery.SubscriptionID] = &deadCount{}
		}
	}
	for _, s := range batch {
		if d := counts[s.Delivery.SubscriptionID]; d != nil && !s.IsUncounted && !slices.Contains(lost, s) {
			d.add(s)
		}
	}
	return counts
}

func (d *deadCount) add(s *outbound.DeliverySettlement) {
	d.limit = s.DeadInRow
	if s.Disable != "" {
		d.disable = s.Disable
	}
	switch s.Status { //nolint:exhaustive // the other states do not count
	case eventhook.DeliverySuccess:
		d.hasSuccess, d.sinceSuccess, d.since = true, 0, time.Time{}
	case eventhook.DeliveryDead:
		d.list = append(d.list, s)
		if d.since.IsZero() {
			d.since = failingSince(s)
		}
		if s.Attempt == nil || isAboutOwnFailure(s.Delivery) {
			return // it was too old to be sent, or it reported failures that are counted already
		}
		if !d.hasSuccess {
			d.beforeSuccess++
			return
		}
		d.sinceSuccess++
		d.longest = max(d.longest, d.sinceSuccess)
	}
}

// failingSince returns when the failures behind a dead delivery began, as far as the settlement
// says; the zero time if nothing was sent.
func failingSince(s *outbound.DeliverySettlement) time.Time {
	if s.FailingSince.IsZero() && s.Attempt != nil {
		return s.Attempt.StartedAt
	}
	return s.FailingSince
}

// isLate reports whether an attempt that began before the end of an outage made a delivery dead now.
func (d *deadCount) isLate(outageEnded *time.Time) bool {
	return outageEnded != nil && slices.ContainsFunc(d.list, func(s *outbound.DeliverySettlement) bool {
		return s.Attempt != nil && s.Attempt.StartedAt.Before(*outageEnded)
	})
}

// disabling is why the gateway disables a subscription.
type disabling struct {
	by     eventhook.DisabledBy
	reason string // readable by users
}

// disabling returns why the subscription must be disabled. ok is false if it stays as it is.
// inRow is the length of its longest series of dead deliveries.
func (d *deadCount) disabling(inRow int) (why disabling, ok bool) {
	switch {
	case d.disable != "":
		return disabling{eventhook.DisabledByGone, d.disable}, true
	case d.limit > 0 && inRow >= d.limit:
		return disabling{eventhook.DisabledByFailures, fmt.Sprintf("%d consecutive deliveries are dead", inRow)}, true
	}
	return disabling{}, false
}

// lockSubscriptionsSQL locks subscriptions in the order of their ids. Lock order:
// subscription, then subscription_health (see CreateSubscription). Primary key.
const lockSubscriptionsSQL = `
SELECT id, tenant_id, name FROM eventhook.subscription WHERE id = ANY($1::uuid[]) ORDER BY id FOR NO KEY UPDATE`

// lockedSubscription is a subscription that lockSubscriptionsSQL has locked.
type lockedSubscription struct {
	tenant eventhook.TenantID
	name   string
}

// addDeadSQL adds to the counts of dead deliveries in a row. If the batch has a success for a
// subscription, it sets the final count instead. It returns the previous count plus the dead
// deliveries before the first success, and when the latest outage ended, NULL while one is going on.
// Primary key; the rows change in place (HOT).
const addDeadSQL = `
WITH u AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::int4[], $3::int4[], $4::bool[], $5::timestamptz[]) AS u (id, before_success, since_success, has_success, since)
), was AS MATERIALIZED (
    SELECT u.id, coalesce(h.dead_in_row, 0) AS dead FROM u LEFT JOIN eventhook.subscription_health h ON h.subscription_id = u.id
), counted AS (
    INSERT INTO eventhook.subscription_health AS h (subscription_id, dead_in_row, dead_since)
    SELECT u.id, CASE WHEN u.has_success THEN u.since_success ELSE u.before_success END, u.since FROM u ORDER BY u.id
    ON CONFLICT (subscription_id) DO UPDATE SET dead_in_row = excluded.dead_in_row
        + CASE WHEN (SELECT u.has_success FROM u WHERE u.id = h.subscription_id) THEN 0 ELSE h.dead_in_row END,
        dead_since = coalesce(CASE WHEN (SELECT NOT u.has_success FROM u WHERE u.id = h.subscription_id) THEN h.dead_since END, excluded.dead_since)
    RETURNING h.subscription_id, CASE WHEN h.failing_since IS NULL THEN h.outage_ended_at END AS outage_ended_at
)
SELECT was.id, was.dead + u.before_success, counted.outage_ended_at
FROM was JOIN u ON u.id = was.id JOIN counted ON counted.subscription_id = was.id`

// settleWithDead settles a batch with dead deliveries and updates their subscriptions in one
// transaction. It locks deliveries first: no transaction that has locked a subscription waits for
// a delivery. After that it follows the lock order of CreateSubscription. The locks of keys come
// last, as in a change of a subscription whose system event is delivered in order.
func (db *DB) settleWithDead(ctx context.Context, batch []*outbound.DeliverySettlement) (done settleResult, err error) {
	var announcements []announced
	var disabled []eventhook.Subscription
	var reasons map[eventhook.SubscriptionID]disabling
	recovered := 0
	err = pgx.BeginFunc(ctx, db.work, func(tx pgx.Tx) error {
		batch, err := renewStale(ctx, tx, batch, db.now())
		if err != nil || len(batch) == 0 {
			done = settleResult{}
			return err
		}
		done, err = db.settleOnConn(ctx, tx.Conn().PgConn(), batch, false)
		if err != nil {
			return err
		}
		counts := deadCountsOf(batch, done.lost)
		names, err := lockSubscriptions(ctx, tx, counts)
		if err != nil {
			return err
		}
		if err := openOutages(ctx, tx.Conn().PgConn(), batch, db.now()); err != nil {
			return err
		}
		if recovered, err = endOutages(ctx, tx, succeededIn(batch, done.lost), counts, db.now()); err != nil {
			return err
		}
		var late []eventhook.SubscriptionID
		if reasons, late, err = addDead(ctx, tx, counts); err != nil {
			return err
		}
		if err := recoverLate(ctx, tx, late, db.now()); err != nil {
			return err
		}
		announcements, disabled, err = db.disableSubscriptions(ctx, tx, reasons)
		if err != nil {
			return err
		}
		dead, err := db.announceDead(ctx, tx, counts, names)
		if err != nil {
			return err
		}
		announcements = append(announcements, dead)
		return advanceOrder(ctx, tx.Conn().PgConn(), batch, db.now())
	})
	if err != nil {
		return settleResult{}, err
	}
	for _, a := range announcements {
		db.notifyAnnounced(a)
	}
	db.recoveriesBegan(recovered)
	for _, s := range disabled {
		db.observer.SubscriptionsDisabled(reasons[s.ID].by, 1)
		db.log.Warn("a subscription was disabled", "tenant", s.TenantSlug, "subscription", s.ID, "reason", reasons[s.ID].reason,
			"by", reasons[s.ID].by)
	}
	return done, nil
}

// lockSubscriptions locks the subscriptions of counts and returns them. It removes the
// counts of subscriptions that do not exist any more.
func lockSubscriptions(ctx context.Context, tx pgx.Tx,
	counts map[eventhook.SubscriptionID]*deadCount) (map[eventhook.SubscriptionID]lockedSubscription, error) {
	rows, err := tx.Query(ctx, lockSubscriptionsSQL, uuids(slices.Collect(maps.Keys(counts))))
	if err != nil {
		return nil, err
	}
	found := map[eventhook.SubscriptionID]lockedSubscription{}
	var id eventhook.SubscriptionID
	var s lockedSubscription
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), (*[16]byte)(&s.tenant), &s.name}, func() error {
		found[id] = s
		return nil
	})
	maps.DeleteFunc(counts, func(id eventhook.SubscriptionID, _ *deadCount) bool { _, exists := found[id]; return !exists })
	return found, err
}

// succeededIn returns the subscriptions with a successful delivery in the batch. It ignores
// lost settlements.
func succeededIn(batch, lost []*outbound.DeliverySettlement) map[eventhook.SubscriptionID]bool {
	succeeded := map[eventhook.SubscriptionID]bool{}
	for _, s := range batch {
		if resetsDeadCount(s) && !slices.Contains(lost, s) {
			succeeded[s.Delivery.SubscriptionID] = true
		}
	}
	return succeeded
}

// addDead writes the counts. It returns the subscriptions to disable, with the reasons, and the other
// subscriptions with deliveries that their latest outage has made dead after its end.
func addDead(ctx context.Context, tx pgx.Tx, counts map[eventhook.SubscriptionID]*deadCount) (
	reasons map[eventhook.SubscriptionID]disabling, late []eventhook.SubscriptionID, err error) {
	var ids [][16]byte
	var since []*time.Time
	var beforeSuccess, sinceSuccess []int32
	var hasSuccess []bool
	for id, d := range counts {
		ids, hasSuccess = append(ids, id), append(hasSuccess, d.hasSuccess)
		beforeSuccess, sinceSuccess = append(beforeSuccess, int32(d.beforeSuccess)), append(sinceSuccess, int32(d.sinceSuccess))
		since = append(since, timeArg(d.since))
	}
	rows, err := tx.Query(ctx, addDeadSQL, ids, beforeSuccess, sinceSuccess, hasSuccess, since)
	if err != nil {
		return nil, nil, err
	}
	reasons = map[eventhook.SubscriptionID]disabling{}
	var id eventhook.SubscriptionID
	var inRow int
	var outageEnded *time.Time
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &inRow, &outageEnded}, func() error {
		if why, ok := counts[id].disabling(max(inRow, counts[id].longest)); ok {
			reasons[id] = why
		} else if counts[id].isLate(outageEnded) {
			late = append(late, id)
		}
		return nil
	})
	return reasons, late, err
}

// deliveryFailedType is the type of the system event that reports dead deliveries to their
// tenant.
const deliveryFailedType = "system.webhook_delivery_failed"

// maxReportedIDs is the maximum number of delivery ids in one such event.
const maxReportedIDs = 100

// failedDeliveries is the data of a system event about dead deliveries.
type failedDeliveries struct {
	Subscription announcedObject        `json:"subscription"`
	Count        int                    `json:"count"`
	DeliveryIDs  []eventhook.DeliveryID `json:"delivery_ids"` // the first maxReportedIDs
	EventTypes   []string               `json:"event_types"`
	LastError    string                 `json:"last_error"`
}

// announceDead stores one system event for each subscription with dead deliveries. It skips
// deliveries of these events themselves; otherwise each event that cannot be delivered would
// create the next.
func (db *DB) announceDead(ctx context.Context, tx pgx.Tx, counts map[eventhook.SubscriptionID]*deadCount,
	locked map[eventhook.SubscriptionID]lockedSubscription) (announced, error) {
	var events []*eventhook.Event
	for id, d := range counts {
		reported := slices.DeleteFunc(slices.Clone(d.list), func(s *outbound.DeliverySettlement) bool { return s.Delivery.EventType == deliveryFailedType })
		if len(reported) == 0 {
			continue
		}
		body, err := json.Marshal(newFailedDeliveries(announcedObject{"subscription", id.String(), locked[id].name}, reported))
		if err != nil {
			return announced{}, fmt.Errorf("announce dead deliveries: %w", err)
		}
		e := newSystemEvent(locked[id].tenant, deliveryFailedType, body)
		if cause := reported[len(reported)-1].Delivery.Event; cause != nil {
			e.TraceID, e.Envelope.TraceFlags, e.Envelope.ParentSpan = cause.Trace(), cause.TraceFlags(), cause.Span().String()
		}
		events = append(events, e)
	}
	return db.announceIn(ctx, tx, events, nil)
}

// isAboutOwnFailure reports whether a delivery carries a failure report about the
// subscription that receives it. If such a delivery counted, each failure would
// count twice.
func isAboutOwnFailure(d *eventhook.Delivery) bool {
	return d.EventType == deliveryFailedType && d.Event != nil && bytes.Contains(d.Event.Body, []byte(d.SubscriptionID.String()))
}

func newFailedDeliveries(subscription announcedObject, reported []*outbound.DeliverySettlement) failedDeliveries {
	data := failedDeliveries{Subscription: subscription, Count: len(reported), LastError: reported[len(reported)-1].LastError}
	for i, s := range reported {
		if i < maxReportedIDs {
			data.DeliveryIDs = append(data.DeliveryIDs, s.Delivery.ID)
		}
		data.EventTypes = append(data.EventTypes, s.Delivery.EventType)
	}
	slices.Sort(data.EventTypes)
	data.EventTypes = slices.Compact(data.EventTypes)
	return data
}
