package outbound

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/eventhook/eventhook"
)

// Generations returns the generation of a tenant's subscriptions from a cache.
type Generations interface {
	Generation(ctx context.Context, tenant eventhook.TenantID) (int64, error)
	// Invalidate evicts the tenant from the cache.
	Invalidate(tenant eventhook.TenantID)
}

// TestStore stores test events and the outcomes of their deliveries.
type TestStore interface {
	// Publish stores items as PublishStore does.
	Publish(ctx context.Context, batch []*PublishItem) error
	SettleDeliveries(ctx context.Context, batch []*DeliverySettlement) (lost []*DeliverySettlement, err error)
}

// Tester sends test events. It makes one attempt at one subscription immediately,
// regardless of the event types and the status of the subscription. The outcome does not
// count for disabling the subscription. Safe for concurrent use.
type Tester struct {
	Transports  SubscriptionTransports
	Generations Generations
	Store       TestStore
	Now         func() time.Time
}

// testType is the type of test events.
const testType = "system.webhook_test"

// isTest reports whether a delivery is of a test event. Tenants cannot publish events of
// this type.
func isTest(d *eventhook.Delivery) bool { return d.EventType == testType }

// testData is the data of a test event.
type testData struct {
	Message      string     `json:"message"`
	Tenant       string     `json:"tenant,omitempty"`
	Subscription testedName `json:"subscription"`
}

type testedName struct {
	ID   string `json:"id,omitempty"` // "" if the subscription is not stored yet
	Name string `json:"name"`
}

// testActor is the actor of a test event: the caller that requested it.
type testActor struct {
	Type eventhook.ActorType `json:"type"`
	ID   string              `json:"id,omitempty"`
	Name string              `json:"name"`
}

// Validate sends a test event without storing it. The subscription does not have to be
// stored either.
func (t *Tester) Validate(ctx context.Context, s eventhook.Subscription) eventhook.Attempt {
	return t.send(ctx, &s, t.delivery(&s, eventhook.Actor{}))
}

// Test stores a test event with its delivery, makes one attempt, and settles the delivery as
// a success or as dead. A failed attempt is not an error. If ctx ends during the attempt,
// the attempt has failed, and its outcome is stored nevertheless.
func (t *Tester) Test(ctx context.Context, s eventhook.Subscription, by eventhook.Actor) (eventhook.Delivery, eventhook.Attempt, error) {
	d := t.delivery(&s, by)
	if err := t.publish(ctx, d); err != nil {
		return eventhook.Delivery{}, eventhook.Attempt{}, err
	}
	a := t.send(ctx, &s, d)
	err := t.settle(ctx, d, a)
	return *d, a, err
}

// send makes the attempt.
func (t *Tester) send(ctx context.Context, s *eventhook.Subscription, d *eventhook.Delivery) eventhook.Attempt {
	return t.Transports.To(s).Send(ctx, d, 1)
}

// delivery creates a test event and its delivery, which is leased until the attempt has
// timed out and is settled.
func (t *Tester) delivery(s *eventhook.Subscription, by eventhook.Actor) *eventhook.Delivery {
	const margin = time.Minute // to store and to settle the delivery
	now := t.Now()
	e := &eventhook.Event{
		ID: eventhook.NewID[eventhook.Event](now), TenantID: s.TenantID, Origin: eventhook.OriginSystem, Status: eventhook.EventDelivered,
		EventType: testType, ContentType: "application/json", TraceID: by.TraceID, RequestID: by.RequestID,
		Envelope: &eventhook.Envelope{TraceFlags: by.TraceFlags, ParentSpan: by.ParentSpan},
	}
	e.TraceID = e.Trace()
	if kind, ok := eventhook.FindSystemEventType(testType); ok {
		e.Envelope.Category = kind.Category
	}
	if scope := s.TestScope(); scope != "" {
		e.Envelope.Scope = marshal(scope)
	}
	if by.Type != "" {
		e.Envelope.Actor = marshal(testActor{by.Type, textOf(by.KeyID), by.Name})
	}
	message := fmt.Sprintf("This is a test of the subscription %q: nothing has happened.", s.Name)
	e.Body = marshal(testData{message, s.TenantSlug, testedName{textOf(s.ID), s.Name}})
	e.BodySize = len(e.Body)
	return &eventhook.Delivery{
		ID: eventhook.DeliveryIDOf(e.ID, eventhook.DestinationID(s.ID)), TenantID: s.TenantID, DestinationID: eventhook.DestinationID(s.ID), SubscriptionID: s.ID, EventID: e.ID, EventType: testType,
		Status: eventhook.DeliveryAcquired, Lease: eventhook.Lease{Token: 1, Until: now.Add(s.Timeout() + margin)}, Event: e,
	}
}

func textOf[K any](id eventhook.ID[K]) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// marshal encodes a struct of strings, which cannot fail.
func marshal(v any) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}

var errSubscriptionsChanging = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "The tenant's subscriptions keep changing. Try again."}

// publish stores the event with this delivery only. It evaluates no filter.
func (t *Tester) publish(ctx context.Context, d *eventhook.Delivery) error {
	const maxTries = 10
	for range maxTries {
		generation, err := t.Generations.Generation(ctx, d.TenantID)
		if err != nil {
			return fmt.Errorf("test a subscription: %w", err)
		}
		p := &PublishItem{Event: d.Event, Deliveries: []*eventhook.Delivery{d}, Generation: generation}
		if err := t.Store.Publish(ctx, []*PublishItem{p}); err != nil {
			return fmt.Errorf("test a subscription: %w", err)
		}
		if !p.IsStale {
			return nil
		}
		t.Generations.Invalidate(d.TenantID)
	}
	return errSubscriptionsChanging
}

// settle stores the outcome, even if the caller has left and ctx has ended.
func (t *Tester) settle(ctx context.Context, d *eventhook.Delivery, a eventhook.Attempt) error {
	const timeout = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	settlement := &DeliverySettlement{Delivery: d, Attempt: &a, Status: eventhook.DeliverySuccess, LastError: a.Error, IsUncounted: true}
	if !a.Succeeded() {
		settlement.Status = eventhook.DeliveryDead
	}
	lost, err := t.Store.SettleDeliveries(ctx, []*DeliverySettlement{settlement})
	switch {
	case err != nil:
		return fmt.Errorf("settle a test: %w", err)
	case len(lost) > 0:
		return fmt.Errorf("settle a test: %w", eventhook.ErrLeaseLost)
	}
	d.Status, d.Attempts, d.StatusCode, d.LastError, d.CompletedAt = settlement.Status, 1, a.StatusCode, a.Error, new(t.Now())
	return nil
}
