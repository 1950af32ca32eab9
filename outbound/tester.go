package outbound

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/eventhook/eventhook"
)

// Generations knows the generation of a tenant's subscriptions.
type Generations interface {
	Generation(ctx context.Context, tenant eventhook.TenantID) (int64, error)
	// Invalidate has them read again.
	Invalidate(tenant eventhook.TenantID)
}

// TestStore keeps the events of tests, and what became of their deliveries.
type TestStore interface {
	// Publish stores the batch or, of one that IsStale, nothing.
	Publish(ctx context.Context, batch []*PublishItem) error
	SettleDeliveries(ctx context.Context, batch []*DeliverySettlement) (lost []*DeliverySettlement, err error)
}

// Tester sends test events: each to one subscription, whatever it wants and
// whether it is active or not, once, and at once. Neither a success nor a failure
// counts for the subscription. Safe for concurrent use.
type Tester struct {
	Transports  SubscriptionTransports
	Generations Generations
	Store       TestStore
	Now         func() time.Time
}

// testType is the type of their events.
const testType = "system.webhook_test"

// isTest reports whether a delivery is a test's: only those have the type.
func isTest(d *eventhook.Delivery) bool { return d.EventType == testType }

// testData is what a test event says.
type testData struct {
	Message      string     `json:"message"`
	Tenant       string     `json:"tenant,omitempty"`
	Subscription testedName `json:"subscription"`
}

type testedName struct {
	ID   string `json:"id,omitempty"` // of one that is stored
	Name string `json:"name"`
}

// testActor is who wants it.
type testActor struct {
	Type eventhook.ActorType `json:"type"`
	ID   string              `json:"id,omitempty"`
	Name string              `json:"name"`
}

// Validate sends an event that is not stored, such as to a subscription that is
// not stored yet.
func (t *Tester) Validate(ctx context.Context, s eventhook.Subscription) eventhook.Attempt {
	return t.send(ctx, &s, t.delivery(&s, eventhook.Actor{}))
}

// Test sends an event that is stored with its delivery, which is a success or
// dead when it returns. An answer that is no success is no error. When ctx ends
// meanwhile the attempt has failed, and is written down all the same.
func (t *Tester) Test(ctx context.Context, s eventhook.Subscription, by eventhook.Actor) (eventhook.Delivery, eventhook.Attempt, error) {
	d := t.delivery(&s, by)
	if err := t.publish(ctx, d); err != nil {
		return eventhook.Delivery{}, eventhook.Attempt{}, err
	}
	a := t.send(ctx, &s, d)
	err := t.settle(ctx, d, a)
	return *d, a, err
}

// send makes the one attempt.
func (t *Tester) send(ctx context.Context, s *eventhook.Subscription, d *eventhook.Delivery) eventhook.Attempt {
	return t.Transports.To(s).Send(ctx, d, 1)
}

// delivery makes one with its event, leased for as long as the attempt can take.
func (t *Tester) delivery(s *eventhook.Subscription, by eventhook.Actor) *eventhook.Delivery {
	const margin = time.Minute // for the two writes
	now := t.Now()
	e := &eventhook.Event{
		ID: eventhook.NewID[eventhook.Event](now), TenantID: s.TenantID, Origin: eventhook.OriginSystem, Status: eventhook.EventDelivered,
		EventType: testType, ContentType: "application/json", RequestID: by.RequestID, Envelope: &eventhook.Envelope{},
	}
	e.TraceID = e.Trace()
	if kind, ok := eventhook.FindSystemEventType(testType); ok {
		e.Envelope.Category = kind.Category
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

// marshal is for types of texts alone, which cannot fail.
func marshal(v any) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}

var errKeepsChanging = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "The tenant's subscriptions keep changing. Try again."}

// publish stores the event with this delivery alone: no filter is evaluated.
func (t *Tester) publish(ctx context.Context, d *eventhook.Delivery) error {
	const mostTries = 10
	for range mostTries {
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
	return errKeepsChanging
}

// settle writes down what came of it, even when nobody waits for it any more.
func (t *Tester) settle(ctx context.Context, d *eventhook.Delivery, a eventhook.Attempt) error {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	settlement := &DeliverySettlement{Delivery: d, Attempt: &a, Status: eventhook.DeliverySuccess, LastError: a.Error, IsTest: true}
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
