package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/clocktest"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/route"
)

// subscribers is the store with a fake publisher and a fake tester.
type subscribers struct {
	*pg.DB
	t         *testing.T
	clock     *clocktest.Clock
	mu        sync.Mutex
	conn      *pgx.Conn
	first     map[string]*eventhook.Event
	published []*eventhook.Event // in order
	batches   []int              // number of events per call of Publish
	refuse    string             // Publish fails for events of this type
	down      error              // error of every Publish; nil: none
	answers   eventhook.Attempt  // attempt that Test and Validate return
	tested    []eventhook.Subscription
	stats     eventhook.SubscriptionStats
}

var (
	_ api.SubscriptionStore = (*pg.DB)(nil)
	_ api.DeliveryStore     = (*pg.DB)(nil)
	_ api.Publisher         = (*subscribers)(nil)
	_ api.Tester            = (*subscribers)(nil)
)

// SubscriptionStats returns fixed statistics.
func (f *subscribers) SubscriptionStats(ctx context.Context, tenant eventhook.TenantID, id eventhook.SubscriptionID) (eventhook.SubscriptionStats, error) {
	_, err := f.DB.SubscriptionStats(ctx, tenant, id)
	return f.stats, err
}

// Publish stores events with a delivery for each matching subscription.
func (f *subscribers) Publish(ctx context.Context, tenant eventhook.TenantID, events []*eventhook.Event) []api.PublishResult {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.batches = append(f.batches, len(events))
	outcomes := make([]api.PublishResult, len(events))
	for i, e := range events {
		if e.TenantID != tenant {
			f.t.Errorf("an event of the tenant %s is published for %s", e.TenantID, tenant)
		}
		if outcomes[i], outcomes[i].Err = f.publish(ctx, e); f.refuse != "" && e.EventType == f.refuse {
			outcomes[i] = api.PublishResult{Err: errBroken}
		}
	}
	return outcomes
}

// publish creates a delivery for each active or paused subscription with the event's
// type or *.
func (f *subscribers) publish(ctx context.Context, e *eventhook.Event) (api.PublishResult, error) {
	if f.down != nil {
		return api.PublishResult{}, f.down
	}
	p := api.PublishResult{EventID: e.ID}
	if first := f.first[e.IdempotencyKey]; e.IdempotencyKey != "" && first != nil {
		_, count, err := f.EventDeliveries(ctx, e.TenantID, first.ID, 1)
		return api.PublishResult{EventID: first.ID, Deliveries: count, IsDuplicate: true}, err
	}
	f.first[e.IdempotencyKey] = e
	f.published = append(f.published, e)
	_, list, err := f.TenantSubscriptions(ctx, e.TenantID)
	for _, s := range list {
		if s.Status != eventhook.SubscriptionDisabled && (slices.Contains(s.EventTypes, e.EventType) || slices.Contains(s.EventTypes, "*")) {
			f.storeDelivery(eventhook.Delivery{ID: eventhook.DeliveryIDOf(e.ID, eventhook.DestinationID(s.ID)), TenantID: e.TenantID, SubscriptionID: s.ID, EventID: e.ID, EventType: e.EventType,
				Status: eventhook.DeliveryPending, NextAttemptAt: new(f.clock.Now())})
			p.Deliveries++
		}
	}
	return p, err
}

// storeDelivery stores a delivery with its attempts, and the data of its event.
func (f *subscribers) storeDelivery(d eventhook.Delivery, attempts ...eventhook.Attempt) {
	const insert = `INSERT INTO eventhook.delivery (id, tenant_id, destination_id, event_id, event_type, due_at, completed_at, attempts, retry_count, status_code, status, last_error, history, route_id, target_index)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, nullif($10, 0), $11, nullif($12, ''), $13, $14, $15)`
	var route *[16]byte
	var index *int
	if d.IsOfRoute() {
		route, index = (*[16]byte)(&d.RouteID), &d.TargetIndex
	}
	due := d.NextAttemptAt
	if isOpen := d.Status == eventhook.DeliveryPending || d.Status == eventhook.DeliveryAcquired || d.Status == eventhook.DeliveryFailed; isOpen && due == nil {
		due = new(f.clock.Now())
	}
	var history strings.Builder
	for _, a := range attempts {
		line, err := json.Marshal(object{"started_at": a.StartedAt.UTC(), "duration_ms": a.Duration.Milliseconds(), "status_code": a.StatusCode,
			"error": a.Error, "error_class": a.ErrorClass, "response_excerpt": a.Excerpt})
		if err != nil {
			f.t.Error(err)
		}
		history.Write(append(line, '\n'))
	}
	_, err := f.conn.Exec(context.Background(), insert, [16]byte(d.ID), [16]byte(d.TenantID), [16]byte(d.Destination().ID()), [16]byte(d.EventID), d.EventType, due, d.CompletedAt,
		d.Attempts, d.RetryCount, d.StatusCode, string(d.Status), d.LastError, history.String(), route, index)
	if err == nil {
		_, err = f.conn.Exec(context.Background(), `INSERT INTO eventhook.event (id, tenant_id, status, origin, event_type) VALUES ($1, $2, 'delivered', 'api', $3) ON CONFLICT DO NOTHING`,
			[16]byte(d.EventID), [16]byte(d.TenantID), d.EventType)
	}
	if err == nil {
		_, err = f.conn.Exec(context.Background(), `INSERT INTO eventhook.event_payload (event_id, headers, body) VALUES ($1, '', '{}') ON CONFLICT DO NOTHING`, [16]byte(d.EventID))
	}
	if err != nil {
		f.t.Error(err)
	}
}

// deleteDeliveries deletes all deliveries.
func (f *subscribers) deleteDeliveries() { f.truncate("delivery_default") }

// deletePayloads deletes the data of events, as retention does.
func (f *subscribers) deletePayloads() { f.truncate("event_payload_default") }

func (f *subscribers) truncate(table string) {
	if _, err := f.conn.Exec(context.Background(), `TRUNCATE eventhook.`+table); err != nil {
		f.t.Error(err)
	}
}

// Preview returns the body of the event.
func (f *subscribers) Preview(_ context.Context, s eventhook.Subscription, d eventhook.Delivery) (http.Header, []byte, error) {
	return http.Header{"Webhook-Id": {d.EventID.String()}, "X-Two": {"a", "b"}}, append([]byte(s.Name+" "), d.Event.Body...), nil
}

func (f *subscribers) Validate(_ context.Context, s eventhook.Subscription) eventhook.Attempt {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tested = append(f.tested, s)
	return f.answers
}

func (f *subscribers) Test(_ context.Context, s eventhook.Subscription, _ eventhook.Actor) (eventhook.Delivery, eventhook.Attempt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tested = append(f.tested, s)
	e := eventhook.NewID[eventhook.Event](f.clock.Now())
	d := eventhook.Delivery{ID: eventhook.DeliveryIDOf(e, eventhook.DestinationID(s.ID)), TenantID: s.TenantID, SubscriptionID: s.ID, EventID: e, EventType: "system.webhook_test",
		Status: eventhook.DeliverySuccess, Attempts: 1, StatusCode: f.answers.StatusCode, CompletedAt: new(f.clock.Now())}
	if !f.answers.Succeeded() {
		d.Status, d.LastError = eventhook.DeliveryDead, f.answers.Error
	}
	f.storeDelivery(d, f.answers)
	return d, f.answers, nil
}

// receivers checks URLs of subscriptions in tests; 10.0.0.1 is not allowed.
func (f *subscribers) receivers(t *testing.T) api.Receivers {
	return api.Receivers{
		Tester: f,
		CheckFilter: func(filter []byte) eventhook.Faults {
			faults, err := route.Check(t.Context(), eventhook.TenantID{}, eventhook.Route{Filter: filter})
			if err != nil {
				t.Error(err)
			}
			for i := range faults {
				faults[i].Location = strings.TrimPrefix(strings.TrimPrefix(faults[i].Location, "filter"), ".")
			}
			return faults
		},
		CheckAddress: func(_ context.Context, url string) error {
			if strings.Contains(url, "//10.0.0.1") {
				return errors.New("leads to an address that is not allowed")
			}
			return nil
		},
	}
}
