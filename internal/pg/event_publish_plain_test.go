package pg

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// publishAction returns an action that publishes an event. key may be "".
func (f *fixture) publishAction(eventType, key, data string, to ...*eventhook.Subscription) effects.PlannedAction {
	p := &effects.Publication{ID: eventhook.NewID[eventhook.Event](f.clock.Now()), EventType: eventType, IdempotencyKey: key, Data: []byte(data)}
	for _, s := range to {
		p.Subscriptions = append(p.Subscriptions, s)
		p.Deliveries = append(p.Deliveries, &eventhook.Delivery{
			ID: eventhook.DeliveryIDOf(p.ID, eventhook.DestinationID(s.ID)), DestinationID: eventhook.DestinationID(s.ID), SubscriptionID: s.ID,
		})
	}
	return effects.PlannedAction{Action: eventhook.Action{TargetType: "publish"}, Effect: effects.Effect{Publication: p}}
}

func TestSettlePublishes(t *testing.T) {
	f := setUp(t)
	e := f.event(f.withLease, func(e *eventhook.Event) { e.TraceID, e.RequestID = "4bf92f3577b34da6a3ce929d0e0e4736", "req-1" })
	f.must(f.db.Accept(t.Context(), arrivals(e)))
	a := f.publishAction("payment.succeeded", "pay-1", `{"id": 1.50}`)
	f.settle(f.db, f.plan(e, a, f.executionAction(eventhook.Task, "pay-1")))
	same(t, "the cause", f.storedEvent(e).Status, eventhook.EventDelivered)

	got := f.actions(e)[0]
	same(t, "the action", got.Status, eventhook.ActionSuccess)
	same(t, "published event", got.PublishedEventID, a.Effect.Publication.ID)
	published, err := f.db.Event(t.Context(), f.tenant, got.PublishedEventID)
	f.must(err)
	at := noon
	published.ProcessedAt = &at
	same(t, "the event", published, eventhook.Event{
		ID: a.Effect.Publication.ID, TenantID: f.tenant, Origin: eventhook.OriginRoute, Status: eventhook.EventDelivered,
		EventType: "payment.succeeded", ContentType: "application/json", IdempotencyKey: "pay-1", BodySize: len(`{"id": 1.50}`),
		TraceID: e.TraceID, RequestID: "req-1", CorrelationID: e.ID.String(), ProcessedAt: &at,
	})
	payloads, err := f.db.Payloads(t.Context(), []eventhook.EventID{published.ID})
	f.must(err)
	same(t, "its body", string(payloads[published.ID].Body), `{"id": 1.50}`)
	same(t, "its headers", string(payloads[published.ID].Headers), "Content-Type: application/json")
	same(t, "due events", f.count("event", "due_at IS NOT NULL"), 0)
}

func TestAPublishedEventKeepsTheCorrelation(t *testing.T) {
	f := setUp(t)
	e := f.event()
	f.must(f.db.Accept(t.Context(), arrivals(e)))
	f.exec(`UPDATE eventhook.event SET correlation_id = 'order-7' WHERE id = $1`, [16]byte(e.ID))
	e = f.claimEvents(f.db, 1)[0]
	f.settle(f.db, f.plan(e, f.publishAction("a", "", "1")))
	same(t, "published events with the correlation", f.count("event", "origin = 'route' AND correlation_id = 'order-7'"), 1)
}

func TestAKeyIsPublishedOnceADay(t *testing.T) {
	f := setUp(t)
	settle := func(a effects.PlannedAction) eventhook.Action {
		e := f.leasedEvents(1)[0]
		f.settle(f.db, f.plan(e, a))
		return f.actions(e)[0]
	}
	first := settle(f.publishAction("a", "k", "1"))
	same(t, "first", first.Status, eventhook.ActionSuccess)
	second := settle(f.publishAction("a", "k", "2"))
	same(t, "second", second.Status, eventhook.ActionSkipped)
	same(t, "published event of the second action", second.PublishedEventID, first.PublishedEventID)
	same(t, "another type", settle(f.publishAction("b", "k", "3")).Status, eventhook.ActionSuccess)
	same(t, "no key", settle(f.publishAction("a", "", "4")).Status, eventhook.ActionSuccess)
	f.clock.Advance(eventhook.TargetKeyTTL)
	same(t, "a day later", settle(f.publishAction("a", "k", "5")).Status, eventhook.ActionSuccess)

	both := f.leasedEvents(2)
	f.settle(f.db, f.plan(both[0], f.publishAction("c", "k", "6")), f.plan(both[1], f.publishAction("c", "k", "7")))
	same(t, "in one batch", f.count("event", "event_type = 'c'"), 1)
	same(t, "published", f.count("event", "origin = 'route'"), 5)
}

func TestWatchersAreNotifiedOfPublishedEvents(t *testing.T) {
	f := setUp(t)
	ctx, heard := t.Context(), make(chan eventhook.Event, 10)
	go func() { _ = f.db.PushEvents(ctx, time.Millisecond) }()
	updated := make(chan struct{}, 10)
	go func() {
		_ = f.db.WatchEvents(ctx, f.tenant, time.Hour, func(news eventhook.EventUpdates) error {
			for _, e := range news.Events {
				heard <- e
			}
			updated <- struct{}{}
			return nil
		})
	}()
	<-updated
	f.settle(f.db, f.plan(f.leasedEvents(1)[0], f.publishAction("payment.succeeded", "", "1")))
	for late := time.After(patient); ; {
		select {
		case e := <-heard:
			if e.EventType == "payment.succeeded" {
				return
			}
		case <-late:
			t.Fatal("no notification of the published event")
		}
	}
}
