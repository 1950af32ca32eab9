package pg

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

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
	kind, _ := eventhook.GatewayEventType(deliveryFailed)
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
