package pg

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// deaths is what a batch does to the count of a subscription's deliveries that
// are dead in a row: in their order, with the successes in between.
type deadCount struct {
	beforeSuccess int
	sinceSuccess  int
	longest       int
	hasSuccess    bool

	limit   int    // how many in a row disable it; 0: never
	disable string // why it is disabled at once; "" if it is not
	list    []*outbound.DeliverySettlement
}

// deadCountsOf are those of the subscriptions that a batch may change, without what
// was lost.
func deadCountsOf(batch, lost []*outbound.DeliverySettlement) map[eventhook.SubscriptionID]*deadCount {
	grave := map[eventhook.SubscriptionID]*deadCount{}
	for _, s := range batch {
		if affectsSubscription(s) {
			grave[s.Delivery.SubscriptionID] = &deadCount{}
		}
	}
	for _, s := range batch {
		if d := grave[s.Delivery.SubscriptionID]; d != nil && !s.IsTest && !slices.Contains(lost, s) {
			d.add(s)
		}
	}
	return grave
}

func (d *deadCount) add(s *outbound.DeliverySettlement) {
	d.limit = s.DeadInRow
	if s.Disable != "" {
		d.disable = s.Disable
	}
	switch s.Status { //nolint:exhaustive // the others do not count
	case eventhook.DeliverySuccess:
		d.hasSuccess, d.sinceSuccess = true, 0
	case eventhook.DeliveryDead:
		d.list = append(d.list, s)
		if s.Attempt == nil || isAboutOwnFailure(s.Delivery) {
			return // it was too old to be sent, or told of what is counted
		}
		if !d.hasSuccess {
			d.beforeSuccess++
			return
		}
		d.sinceSuccess++
		d.longest = max(d.longest, d.sinceSuccess)
	}
}

// reason is why the subscription is to be disabled, when inRow is the longest row
// that it has had; "" if it is not.
func (d *deadCount) reason(inRow int) string {
	switch {
	case d.disable != "":
		return d.disable
	case d.limit > 0 && inRow >= d.limit:
		return fmt.Sprintf("%d deliveries in a row were given up", inRow)
	}
	return ""
}

// lockSubscriptionsSQL locks them in the order of their ids, before their health,
// as whoever changes one does. Primary key.
const lockSubscriptionsSQL = `
SELECT id, name FROM eventhook.subscription WHERE id = ANY($1::uuid[]) ORDER BY id FOR NO KEY UPDATE`

// addDeadSQL adds to the count of those that are dead in a row; of a
// subscription that is healed it sets the count in the end, and answers what it
// was before that. Primary key; the row changes in place (HOT).
const addDeadSQL = `
WITH u AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::int4[], $3::int4[], $4::bool[]) AS u (id, first, after, healed)
), was AS MATERIALIZED (
    SELECT u.id, coalesce(h.dead_in_row, 0) AS dead FROM u LEFT JOIN eventhook.subscription_health h ON h.subscription_id = u.id
), counted AS (
    INSERT INTO eventhook.subscription_health AS h (subscription_id, dead_in_row)
    SELECT u.id, CASE WHEN u.healed THEN u.after ELSE u.first END FROM u ORDER BY u.id
    ON CONFLICT (subscription_id) DO UPDATE SET dead_in_row = excluded.dead_in_row
        + CASE WHEN (SELECT u.healed FROM u WHERE u.id = h.subscription_id) THEN 0 ELSE h.dead_in_row END
)
SELECT was.id, was.dead + u.first FROM was JOIN u ON u.id = was.id`

// settleWithDead settles a batch of which some are dead, and what follows for
// their subscriptions, in one transaction. Behind the deliveries, for which nobody
// waits who holds a subscription, it takes what it changes in the order in which
// everybody does: see CreateSubscription.
func (db *DB) settleWithDead(ctx context.Context, batch []*outbound.DeliverySettlement) (done settleResult, err error) {
	var told []announced
	var disabled []eventhook.Subscription
	var reasons map[eventhook.SubscriptionID]string
	err = pgx.BeginFunc(ctx, db.work, func(tx pgx.Tx) error {
		done, err = db.settleOnConn(ctx, tx.Conn().PgConn(), batch, false)
		if err != nil {
			return err
		}
		grave := deadCountsOf(batch, done.lost)
		names, err := lockSubscriptions(ctx, tx, grave)
		if err != nil {
			return err
		}
		if err := resetDead(ctx, tx, succeededIn(batch, done.lost), grave); err != nil {
			return err
		}
		if reasons, err = addDead(ctx, tx, grave); err != nil {
			return err
		}
		told, disabled, err = db.disableSubscriptions(ctx, tx, reasons)
		if err != nil {
			return err
		}
		dead, err := db.announceDead(ctx, tx, grave, names)
		told = append(told, dead)
		return err
	})
	if err != nil {
		return done, err
	}
	for _, a := range told {
		db.notifyAnnounced(a)
	}
	for _, s := range disabled {
		db.log.Warn("a subscription is disabled; nothing is sent to it until somebody enables it", "tenant", s.TenantSlug, "subscription", s.ID, "reason", reasons[s.ID])
	}
	return done, nil
}

// lockSubscriptions returns the names of the subscriptions, and forgets the
// deaths of those that are gone.
func lockSubscriptions(ctx context.Context, tx pgx.Tx, grave map[eventhook.SubscriptionID]*deadCount) (map[eventhook.SubscriptionID]string, error) {
	rows, err := tx.Query(ctx, lockSubscriptionsSQL, uuids(slices.Collect(maps.Keys(grave))))
	if err != nil {
		return nil, err
	}
	names := map[eventhook.SubscriptionID]string{}
	var id eventhook.SubscriptionID
	var name string
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &name}, func() error {
		names[id] = name
		return nil
	})
	maps.DeleteFunc(grave, func(id eventhook.SubscriptionID, _ *deadCount) bool { _, exists := names[id]; return !exists })
	return names, err
}

// succeededIn are the subscriptions of a batch's successes, without what was lost.
func succeededIn(batch, lost []*outbound.DeliverySettlement) map[eventhook.SubscriptionID]bool {
	healed := map[eventhook.SubscriptionID]bool{}
	for _, s := range batch {
		if resetsDeadCount(s) && !slices.Contains(lost, s) {
			healed[s.Delivery.SubscriptionID] = true
		}
	}
	return healed
}

// resetDeadSQL resets counts of deaths. Primary key; the rows change in place (HOT).
const resetDeadSQL = `UPDATE eventhook.subscription_health SET dead_in_row = 0 WHERE subscription_id = ANY($1) AND dead_in_row > 0`

// heal resets the counts of those that are healed and not counted. It holds those
// that are, too, so that all are taken in one order.
func resetDead(ctx context.Context, tx pgx.Tx, healed map[eventhook.SubscriptionID]bool, counted map[eventhook.SubscriptionID]*deadCount) error {
	maps.DeleteFunc(healed, func(id eventhook.SubscriptionID, _ bool) bool { return counted[id] != nil })
	if len(healed) == 0 {
		return nil
	}
	ids := uuids(slices.Collect(maps.Keys(healed)))
	if _, err := tx.Exec(ctx, lockHealthSQL, slices.Concat(ids, uuids(slices.Collect(maps.Keys(counted))))); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, resetDeadSQL, ids)
	return err
}

// addDead writes the counts and returns which subscriptions are to be
// disabled, and why.
func addDead(ctx context.Context, tx pgx.Tx, grave map[eventhook.SubscriptionID]*deadCount) (map[eventhook.SubscriptionID]string, error) {
	var ids [][16]byte
	var first, after []int32
	var healed []bool
	for id, d := range grave {
		ids, healed = append(ids, id), append(healed, d.hasSuccess)
		first, after = append(first, int32(d.beforeSuccess)), append(after, int32(d.sinceSuccess))
	}
	rows, err := tx.Query(ctx, addDeadSQL, ids, first, after, healed)
	if err != nil {
		return nil, err
	}
	reasons := map[eventhook.SubscriptionID]string{}
	var id eventhook.SubscriptionID
	var inRow int
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &inRow}, func() error {
		if why := grave[id].reason(max(inRow, grave[id].longest)); why != "" {
			reasons[id] = why
		}
		return nil
	})
	return reasons, err
}

// deliveryFailedType tells a tenant of deliveries that were given up.
const deliveryFailedType = "system.webhook_delivery_failed"

// maxReportedIDs bounds the ids that one event of them names.
const maxReportedIDs = 100

// failedDeliveries is the data of such an event.
type failedDeliveries struct {
	Subscription announcedObject        `json:"subscription"`
	Count        int                    `json:"count"`
	DeliveryIDs  []eventhook.DeliveryID `json:"delivery_ids"` // the first of them
	EventTypes   []string               `json:"event_types"`
	LastError    string                 `json:"last_error"`
}

// announceDead makes one event for each subscription of which deliveries are
// dead; none of deliveries of such events, lest one brings the next.
func (db *DB) announceDead(ctx context.Context, tx pgx.Tx, grave map[eventhook.SubscriptionID]*deadCount, names map[eventhook.SubscriptionID]string) (announced, error) {
	var events []*eventhook.Event
	now, kind := db.now(), deliveryFailedEventType()
	for id, d := range grave {
		told := slices.DeleteFunc(slices.Clone(d.list), func(s *outbound.DeliverySettlement) bool { return s.Delivery.EventType == deliveryFailedType })
		if len(told) == 0 {
			continue
		}
		body, err := json.Marshal(newFailedDeliveries(announcedObject{"subscription", id.String(), names[id]}, told))
		if err != nil {
			return announced{}, fmt.Errorf("announce dead deliveries: %w", err)
		}
		events = append(events, &eventhook.Event{
			ID: eventhook.NewID[eventhook.Event](now), TenantID: told[0].Delivery.TenantID, Origin: eventhook.OriginSystem, Status: eventhook.EventDelivered,
			EventType: deliveryFailedType, ContentType: "application/json", TraceID: eventhook.NewTraceID(), BodySize: len(body),
			Envelope: &eventhook.Envelope{Category: kind.Category}, Payload: eventhook.Payload{Body: body},
		})
	}
	return db.announceIn(ctx, tx, events, nil)
}

// isAboutOwnFailure is for a delivery that tells a subscription of its own dead ones:
// were it counted, each would count twice.
func isAboutOwnFailure(d *eventhook.Delivery) bool {
	return d.EventType == deliveryFailedType && d.Event != nil && bytes.Contains(d.Event.Body, []byte(d.SubscriptionID.String()))
}

// deliveryFailedEventType is the catalogue's entry of events about dead deliveries.
func deliveryFailedEventType() eventhook.EventType {
	kind, _ := eventhook.FindSystemEventType(deliveryFailedType)
	return kind
}

func newFailedDeliveries(subscription announcedObject, told []*outbound.DeliverySettlement) failedDeliveries {
	data := failedDeliveries{Subscription: subscription, Count: len(told), LastError: told[len(told)-1].LastError}
	for i, s := range told {
		if i < maxReportedIDs {
			data.DeliveryIDs = append(data.DeliveryIDs, s.Delivery.ID)
		}
		data.EventTypes = append(data.EventTypes, s.Delivery.EventType)
	}
	slices.Sort(data.EventTypes)
	data.EventTypes = slices.Compact(data.EventTypes)
	return data
}
