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
type deaths struct {
	first  int  // before any success: they add to those of before
	after  int  // after the last success
	most   int  // the longest row after the first success
	healed bool // there was a success

	limit   int    // how many in a row disable it; 0: never
	disable string // why it is disabled at once; "" if it is not
	list    []*outbound.DeliverySettlement
}

// deathsIn are those of the subscriptions that a batch may change, without what
// was lost.
func deathsIn(batch, lost []*outbound.DeliverySettlement) map[eventhook.SubscriptionID]*deaths {
	grave := map[eventhook.SubscriptionID]*deaths{}
	for _, s := range batch {
		if isGrave(s) {
			grave[s.Delivery.SubscriptionID] = &deaths{}
		}
	}
	for _, s := range batch {
		if d := grave[s.Delivery.SubscriptionID]; d != nil && !s.IsTest && !slices.Contains(lost, s) {
			d.add(s)
		}
	}
	return grave
}

func (d *deaths) add(s *outbound.DeliverySettlement) {
	d.limit = s.DeadInRow
	if s.Disable != "" {
		d.disable = s.Disable
	}
	switch s.Status { //nolint:exhaustive // the others do not count
	case eventhook.DeliverySuccess:
		d.healed, d.after = true, 0
	case eventhook.DeliveryDead:
		d.list = append(d.list, s)
		if s.Attempt == nil || isOfItself(s.Delivery) {
			return // it was too old to be sent, or told of what is counted
		}
		if !d.healed {
			d.first++
			return
		}
		d.after++
		d.most = max(d.most, d.after)
	}
}

// reason is why the subscription is to be disabled, when inRow is the longest row
// that it has had; "" if it is not.
func (d *deaths) reason(inRow int) string {
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

// addDeathsSQL adds to the count of those that are dead in a row; of a
// subscription that is healed it sets the count in the end, and answers what it
// was before that. Primary key; the row changes in place (HOT).
const addDeathsSQL = `
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

// settleWithDeaths settles a batch of which some are dead, and what follows for
// their subscriptions, in one transaction. Behind the deliveries, for which nobody
// waits who holds a subscription, it takes what it changes in the order in which
// everybody does: see CreateSubscription.
func (db *DB) settleWithDeaths(ctx context.Context, batch []*outbound.DeliverySettlement) (done settledDeliveries, err error) {
	var told []announced
	var disabled []eventhook.Subscription
	var reasons map[eventhook.SubscriptionID]string
	err = pgx.BeginFunc(ctx, db.work, func(tx pgx.Tx) error {
		done, err = db.settleOn(ctx, tx.Conn().PgConn(), batch, false)
		if err != nil {
			return err
		}
		grave := deathsIn(batch, done.lost)
		names, err := lockSubscriptions(ctx, tx, grave)
		if err != nil {
			return err
		}
		if err := heal(ctx, tx, healedIn(batch, done.lost), grave); err != nil {
			return err
		}
		if reasons, err = countDeaths(ctx, tx, grave); err != nil {
			return err
		}
		told, disabled, err = db.disableSubscriptions(ctx, tx, reasons)
		if err != nil {
			return err
		}
		dead, err := db.announceDeaths(ctx, tx, grave, names)
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
func lockSubscriptions(ctx context.Context, tx pgx.Tx, grave map[eventhook.SubscriptionID]*deaths) (map[eventhook.SubscriptionID]string, error) {
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
	maps.DeleteFunc(grave, func(id eventhook.SubscriptionID, _ *deaths) bool { _, exists := names[id]; return !exists })
	return names, err
}

// healedIn are the subscriptions of a batch's successes, without what was lost.
func healedIn(batch, lost []*outbound.DeliverySettlement) map[eventhook.SubscriptionID]bool {
	healed := map[eventhook.SubscriptionID]bool{}
	for _, s := range batch {
		if isHealing(s) && !slices.Contains(lost, s) {
			healed[s.Delivery.SubscriptionID] = true
		}
	}
	return healed
}

// healSQL resets counts of deaths. Primary key; the rows change in place (HOT).
const healSQL = `UPDATE eventhook.subscription_health SET dead_in_row = 0 WHERE subscription_id = ANY($1) AND dead_in_row > 0`

// heal resets the counts of those that are healed and not counted. It holds those
// that are, too, so that all are taken in one order.
func heal(ctx context.Context, tx pgx.Tx, healed map[eventhook.SubscriptionID]bool, counted map[eventhook.SubscriptionID]*deaths) error {
	maps.DeleteFunc(healed, func(id eventhook.SubscriptionID, _ bool) bool { return counted[id] != nil })
	if len(healed) == 0 {
		return nil
	}
	ids := uuids(slices.Collect(maps.Keys(healed)))
	if _, err := tx.Exec(ctx, holdHealthsSQL, slices.Concat(ids, uuids(slices.Collect(maps.Keys(counted))))); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, healSQL, ids)
	return err
}

// countDeaths writes the counts and returns which subscriptions are to be
// disabled, and why.
func countDeaths(ctx context.Context, tx pgx.Tx, grave map[eventhook.SubscriptionID]*deaths) (map[eventhook.SubscriptionID]string, error) {
	var ids [][16]byte
	var first, after []int32
	var healed []bool
	for id, d := range grave {
		ids, healed = append(ids, id), append(healed, d.healed)
		first, after = append(first, int32(d.first)), append(after, int32(d.after))
	}
	rows, err := tx.Query(ctx, addDeathsSQL, ids, first, after, healed)
	if err != nil {
		return nil, err
	}
	reasons := map[eventhook.SubscriptionID]string{}
	var id eventhook.SubscriptionID
	var inRow int
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &inRow}, func() error {
		if why := grave[id].reason(max(inRow, grave[id].most)); why != "" {
			reasons[id] = why
		}
		return nil
	})
	return reasons, err
}

// deliveryFailed tells a tenant of deliveries that were given up.
const deliveryFailed = "system.webhook_delivery_failed"

// mostToldIDs bounds the ids that one event of them names.
const mostToldIDs = 100

// failedDeliveries is the data of such an event.
type failedDeliveries struct {
	Subscription announcedObject        `json:"subscription"`
	Count        int                    `json:"count"`
	DeliveryIDs  []eventhook.DeliveryID `json:"delivery_ids"` // the first of them
	EventTypes   []string               `json:"event_types"`
	LastError    string                 `json:"last_error"`
}

// announceDeaths makes one event for each subscription of which deliveries are
// dead; none of deliveries of such events, lest one brings the next.
func (db *DB) announceDeaths(ctx context.Context, tx pgx.Tx, grave map[eventhook.SubscriptionID]*deaths, names map[eventhook.SubscriptionID]string) (announced, error) {
	var events []*eventhook.Event
	now, kind := db.now(), deathsType()
	for id, d := range grave {
		told := slices.DeleteFunc(slices.Clone(d.list), func(s *outbound.DeliverySettlement) bool { return s.Delivery.EventType == deliveryFailed })
		if len(told) == 0 {
			continue
		}
		body, err := json.Marshal(failedOf(announcedObject{"subscription", id.String(), names[id]}, told))
		if err != nil {
			return announced{}, fmt.Errorf("announce dead deliveries: %w", err)
		}
		events = append(events, &eventhook.Event{
			ID: eventhook.NewID[eventhook.Event](now), TenantID: told[0].Delivery.TenantID, Origin: eventhook.OriginSystem, Status: eventhook.EventDelivered,
			EventType: deliveryFailed, ContentType: "application/json", TraceID: eventhook.NewTraceID(), BodySize: len(body),
			Envelope: &eventhook.Envelope{Category: kind.Category}, Payload: eventhook.Payload{Body: body},
		})
	}
	return db.announceIn(ctx, tx, events, nil)
}

// isOfItself is for a delivery that tells a subscription of its own dead ones:
// were it counted, each would count twice.
func isOfItself(d *eventhook.Delivery) bool {
	return d.EventType == deliveryFailed && d.Event != nil && bytes.Contains(d.Event.Body, []byte(d.SubscriptionID.String()))
}

// deathsType is the catalogue's entry of events about dead deliveries.
func deathsType() eventhook.EventType {
	kind, _ := eventhook.FindSystemEventType(deliveryFailed)
	return kind
}

func failedOf(subscription announcedObject, told []*outbound.DeliverySettlement) failedDeliveries {
	data := failedDeliveries{Subscription: subscription, Count: len(told), LastError: told[len(told)-1].LastError}
	for i, s := range told {
		if i < mostToldIDs {
			data.DeliveryIDs = append(data.DeliveryIDs, s.Delivery.ID)
		}
		data.EventTypes = append(data.EventTypes, s.Delivery.EventType)
	}
	slices.Sort(data.EventTypes)
	data.EventTypes = slices.Compact(data.EventTypes)
	return data
}
