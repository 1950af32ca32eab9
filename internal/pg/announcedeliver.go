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
			wanting[key] = thoseWho(subscribers[e.TenantID], e.EventType, without)
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

// thoseWho are the subscribers who want events of a type, as far as their
// patterns say.
func thoseWho(list []subscriber, eventType string, without map[eventhook.SubscriptionID]bool) (wanting []subscriber) {
	if !eventhook.IsForTenants(eventType) {
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
		if !eventhook.IsForTenants(e.EventType) {
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
