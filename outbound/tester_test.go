package outbound_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/send"
)

// testerStore is a fake of all dependencies of a Tester. Generation returns an outdated generation of
// the subscriptions until Invalidate is called.
type testerStore struct {
	current, known int64
	moves          bool // the generation changes with each Invalidate
	fails          error
	loses          bool
	published      []*outbound.PublishItem
	settled        []*outbound.DeliverySettlement
	sent           []sending
	attempt        eventhook.Attempt
	onSend         func()
}

func (o *testerStore) tester() *outbound.Tester {
	return &outbound.Tester{Transports: o, Generations: o, Store: o, Now: func() time.Time { return eventTime }}
}

func (o *testerStore) Generation(context.Context, eventhook.TenantID) (int64, error) {
	return o.known, o.fails
}

func (o *testerStore) Invalidate(eventhook.TenantID) {
	if o.known = o.current; o.moves {
		o.current++
	}
}

func (o *testerStore) Publish(_ context.Context, batch []*outbound.PublishItem) error {
	for _, p := range batch {
		if p.IsStale = p.Generation != o.current; !p.IsStale {
			o.published = append(o.published, p)
		}
	}
	return nil
}

func (o *testerStore) To(s *eventhook.Subscription) outbound.Transport { return testTransport{o, s} }

// testTransport records the deliveries that are sent to a subscription.
type testTransport struct {
	*testerStore
	to *eventhook.Subscription
}

func (o testTransport) Send(_ context.Context, d *eventhook.Delivery, attempt int) eventhook.Attempt {
	o.sent = append(o.sent, sending{d, attempt, o.to})
	if o.onSend != nil {
		o.onSend()
	}
	return o.attempt
}

func (o *testerStore) SettleDeliveries(ctx context.Context, batch []*outbound.DeliverySettlement) ([]*outbound.DeliverySettlement, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	o.settled = append(o.settled, batch...)
	if o.loses {
		return batch, nil
	}
	return nil, nil
}

var engineer = eventhook.Actor{Type: eventhook.ActorOnBehalf, Name: "ada", RequestID: "req-9"}

func tested() eventhook.Subscription {
	s := *newSubscription("https://hooks.example/")
	s.TenantID, s.TenantSlug, s.TimeoutSeconds = eventhook.NewID[eventhook.Tenant](eventTime), "acme", 7
	s.EventTypes, s.Status = []string{"payment.*"}, eventhook.SubscriptionDisabled
	return s
}

func TestATestIsStoredSentAndSettled(t *testing.T) {
	success := eventhook.Attempt{StatusCode: 204}
	failure := eventhook.Attempt{StatusCode: 410, ErrorClass: eventhook.ErrorHTTP4xx, Error: "hooks.example answered 410 Gone"}
	for claim, c := range map[string]struct {
		attempt eventhook.Attempt
		status  eventhook.DeliveryStatus
	}{"answered": {success, eventhook.DeliverySuccess}, "refused": {failure, eventhook.DeliveryDead}} {
		o, s := &testerStore{current: 7, known: 3, attempt: c.attempt}, tested()
		d, a, err := o.tester().Test(t.Context(), s, engineer)
		if err != nil || !cmp.Equal(a, c.attempt) || d.Status != c.status || d.Attempts != 1 || d.StatusCode != a.StatusCode || d.LastError != a.Error || d.CompletedAt == nil {
			t.Errorf("%s: got %+v, %+v, %v", claim, d, a, err)
		}
		if len(o.published) != 1 || len(o.sent) != 1 || len(o.settled) != 1 {
			t.Fatalf("%s: stored %d, sent %d, settled %d; want one of each", claim, len(o.published), len(o.sent), len(o.settled))
		}
		p, sent, settled := o.published[0], o.sent[0], o.settled[0]
		if len(p.Deliveries) != 1 || p.Deliveries[0].SubscriptionID != s.ID || p.Deliveries[0] != sent.Delivery || sent.to.ID != s.ID || sent.Attempt != 1 {
			t.Errorf("%s: stored %+v, sent %+v; want a delivery to the one subscription", claim, p, sent)
		}
		if lease := sent.Delivery.Lease; lease.Token != 1 || lease.Until.Before(eventTime.Add(s.Timeout()+30*time.Second)) {
			t.Errorf("%s: got a lease until %s", claim, lease.Until)
		}
		if settled.Delivery != sent.Delivery || !settled.IsUncounted || settled.Status != c.status || settled.DeadInRow != 0 || settled.Disable != "" || settled.LastError != a.Error {
			t.Errorf("%s: settled as %+v", claim, settled)
		}
	}
}

func TestTheDataOfATestEvent(t *testing.T) {
	o, s := &testerStore{}, tested()
	s.Name = `bil"ling`
	if _, _, err := o.tester().Test(t.Context(), s, engineer); err != nil {
		t.Fatal(err)
	}
	e := o.sent[0].Delivery.Event
	if e.Envelope.Scope != nil {
		t.Errorf("got the scope %s, want none without a scope_filter", e.Envelope.Scope)
	}
	s.ScopeFilter = []string{"customer-4/*"}
	if _, _, err := o.tester().Test(t.Context(), s, engineer); err != nil || string(o.sent[1].Delivery.Event.Envelope.Scope) != `"customer-4"` {
		t.Errorf("got the scope %s, %v, want that of the scope_filter", o.sent[1].Delivery.Event.Envelope.Scope, err)
	}
	var got struct {
		Type     string         `json:"event_type"`
		Category string         `json:"category"`
		Actor    map[string]any `json:"actor"`
		Data     struct {
			Message, Tenant string
			Subscription    struct{ ID, Name string }
		} `json:"data"`
		RequestID string `json:"request_id"`
	}
	if err := json.Unmarshal(send.Body(e), &got); err != nil {
		t.Fatal(err)
	}
	if got.Type != "system.webhook_test" || got.Category != "eventhook" || got.Actor["type"] != "admin_on_behalf_of" || got.Actor["name"] != "ada" || got.RequestID != "req-9" ||
		got.Data.Message == "" || got.Data.Tenant != "acme" || got.Data.Subscription.ID != s.ID.String() || got.Data.Subscription.Name != s.Name {
		t.Errorf("got %s", send.Body(e))
	}
	if e.Origin != eventhook.OriginSystem || e.ContentType != "application/json" || e.BodySize != len(e.Body) {
		t.Errorf("got %+v", e)
	}
}

// A test has the trace of the request that asked for it, or one of its own.
func TestATestContinuesTheTraceOfItsCaller(t *testing.T) {
	traced := engineer
	traced.TraceID, traced.ParentSpan, traced.TraceFlags = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "00"
	o := &testerStore{}
	for _, by := range []eventhook.Actor{traced, engineer} {
		if _, _, err := o.tester().Test(t.Context(), tested(), by); err != nil {
			t.Fatal(err)
		}
	}
	got, alone := o.sent[0].Delivery.Event, o.sent[1].Delivery.Event
	if got.Trace() != traced.TraceID || got.Span().String() != traced.ParentSpan || got.TraceFlags() != "00" {
		t.Errorf("got the trace %s, the parent %s and the flags %s; want those of the caller", got.Trace(), got.Span(), got.TraceFlags())
	}
	if alone.Trace() == traced.TraceID || alone.Span() != (eventhook.SpanID{}) || alone.TraceFlags() != "" {
		t.Errorf("without a traceparent, got the trace %s below %s with flags %s; want a new one", alone.Trace(), alone.Span(), alone.TraceFlags())
	}
}

func TestValidateStoresNothing(t *testing.T) {
	o := &testerStore{attempt: eventhook.Attempt{StatusCode: 500, ErrorClass: eventhook.ErrorHTTP5xx}}
	s := tested()
	s.ID = eventhook.SubscriptionID{}
	if a := o.tester().Validate(t.Context(), s); !cmp.Equal(a, o.attempt) {
		t.Errorf("got %+v, want the attempt", a)
	}
	if len(o.published)+len(o.settled) != 0 || len(o.sent) != 1 || o.sent[0].Delivery.ID.IsZero() || !json.Valid(send.Body(o.sent[0].Delivery.Event)) {
		t.Errorf("stored %d, settled %d, sent %+v", len(o.published), len(o.settled), o.sent)
	}
}

func TestTestsThatFail(t *testing.T) {
	down := errors.New("no database")
	for claim, c := range map[string]struct {
		fakeStore testerStore
		want      error
	}{
		"the subscriptions cannot be read": {testerStore{fails: down}, down},
		"the subscriptions keep changing":  {testerStore{current: 1, moves: true}, &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "The tenant's subscriptions keep changing. Try again."}},
	} {
		if _, _, err := c.fakeStore.tester().Test(t.Context(), tested(), engineer); !errors.Is(err, c.want) || len(c.fakeStore.sent) != 0 {
			t.Errorf("%s: got %v and %d sent, want %v", claim, err, len(c.fakeStore.sent), c.want)
		}
	}
	o := &testerStore{loses: true}
	if _, _, err := o.tester().Test(t.Context(), tested(), engineer); !errors.Is(err, eventhook.ErrLeaseLost) {
		t.Errorf("got %v, want ErrLeaseLost", err)
	}
}

// If the caller cancels during the attempt, the outcome is stored nevertheless.
func TestATestWhoseCallerCancelsIsSettled(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	o := &testerStore{onSend: leave}
	if _, _, err := o.tester().Test(ctx, tested(), engineer); err != nil || len(o.settled) != 1 {
		t.Errorf("got %v, settled %d", err, len(o.settled))
	}
}
