package consolepages_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// remember inserts the past: events with their deliveries, and the traffic of a day.
func (s *showroom) remember() {
	s.find()
	s.settlePromises()
	s.past.SeedPast(append(s.deliveredEvents(), s.deadEvents()...))
	s.traffic()
	s.past.FailSince(s.failing, 12*time.Minute)
}

// find finds the execution and the promise that the pages show: those of the event of the story.
func (s *showroom) find() {
	ctx := s.t.Context()
	for _, work := range must1(s.api.ListWork(ctx, s.slug, client.ListWorkParams{})).Items {
		if work.EventID != nil && *work.EventID == s.event && work.Kind == "settle-payment" {
			s.execution = work.ID
		}
	}
	s.promise = must1(s.api.ListPromises(ctx, s.slug, client.ListPromisesParams{})).Items[0].ID
}

// settlePromises creates promises in each state.
func (s *showroom) settlePromises() {
	ctx := s.t.Context()
	make := func(key string, timeout *int64) string {
		return must1(s.api.CreatePromise(ctx, s.slug, client.CreatePromiseRequest{IdempotencyKey: key, TimeoutSeconds: timeout})).ID
	}
	must1(s.api.ResolvePromise(ctx, s.slug, make("approval:refund-1003", nil), client.ResolveRequest{Value: map[string]any{"approved": true, "by": "ada"}}))
	must1(s.api.RejectPromise(ctx, s.slug, make("approval:refund-1007", nil), client.RejectRequest{Error: "The order was shipped."}))
	make("approval:discount-55", ref(int64(3600)))
}

// deliveredEvents returns events whose deliveries succeeded, some after retries.
func (s *showroom) deliveredEvents() []gatewaytest.PastEvent {
	const events, retried = 110, 19
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same past in every run
	var past []gatewaytest.PastEvent
	for i := range events {
		at := time.Now().Add(-13*time.Minute - time.Duration(i)*97*time.Second)
		took := func() time.Duration { return time.Duration(8+random.ExpFloat64()*22) * time.Millisecond }
		ok := func(subscription string) gatewaytest.PastDelivery {
			first := gatewaytest.PastAttempt{After: 4 * time.Millisecond, Took: took(), Status: 200}
			if random.IntN(retried) > 0 {
				return gatewaytest.PastDelivery{Subscription: s.subscriptions[subscription], Attempts: []gatewaytest.PastAttempt{first}}
			}
			failed := gatewaytest.PastAttempt{After: 4 * time.Millisecond, Took: took(), Status: 502, Error: "the receiver answered 502 Bad Gateway", Excerpt: "<h1>502 Bad Gateway</h1>"}
			first.After = time.Second + 90*time.Millisecond
			return gatewaytest.PastDelivery{Subscription: s.subscriptions[subscription], Attempts: []gatewaytest.PastAttempt{failed, first}}
		}
		past = append(past,
			gatewaytest.PastEvent{At: at, Type: "payment.succeeded", Status: "delivered", Body: fmt.Sprintf(`{"payment":"pi_%d","amount":%d,"currency":"eur"}`, i, 900+i*37),
				Deliveries: []gatewaytest.PastDelivery{ok("Billing"), ok("CRM")}},
			gatewaytest.PastEvent{At: at.Add(-31 * time.Second), Type: "order.created", Status: "delivered", Body: fmt.Sprintf(`{"order":"#%d"}`, 900-i),
				Deliveries: []gatewaytest.PastDelivery{ok("Warehouse"), ok("CRM"), ok("Data lake")}})
	}
	return past
}

// deadEvents returns events whose deliveries are dead, for a few causes.
func (s *showroom) deadEvents() (past []gatewaytest.PastEvent) {
	for _, cause := range []struct {
		subscription, event string
		status, count       int
		name, excerpt       string
		ago                 time.Duration
	}{
		{"Shop 42", "order.created", 404, 14, "shop42.example.com answered 404 Not Found", "no such shop", 3 * time.Hour},
		{"Warehouse", "order.shipped", 422, 6, "warehouse.example.com answered 422 Unprocessable Entity", `{"error":"parcel is required"}`, 5 * time.Hour},
		{"Billing", "payment.refunded", 401, 3, "billing.example.com answered 401 Unauthorized", "token expired", 9 * time.Hour},
	} {
		for i := range cause.count {
			attempt := gatewaytest.PastAttempt{After: 5 * time.Millisecond, Took: 19 * time.Millisecond, Status: cause.status, Error: cause.name, Excerpt: cause.excerpt}
			past = append(past, gatewaytest.PastEvent{At: time.Now().Add(-cause.ago + time.Duration(i)*4*time.Minute), Type: cause.event, Status: "delivered", Body: `{"order":"#877"}`,
				Deliveries: []gatewaytest.PastDelivery{{Subscription: s.subscriptions[cause.subscription], Attempts: []gatewaytest.PastAttempt{attempt}}}})
		}
	}
	return past
}

// traffic inserts the traffic of a day.
func (s *showroom) traffic() {
	ctx := s.t.Context()
	var list []gatewaytest.PastTraffic
	perMinute := map[string]float64{"stripe": 2900, "shopify": 4100, "github": 190, "slack": 60, "warehouse": 800}
	for _, source := range must1(s.api.ListSources(ctx, s.slug, client.ListSourcesParams{})).Items {
		list = append(list, gatewaytest.PastTraffic{Source: source.ID, PerMinute: perMinute[source.Slug], Refused: map[string]float64{"github": 0.004}[source.Slug]})
	}
	for name, p := range map[string]gatewaytest.PastTraffic{
		"Billing": {PerMinute: 2900, Failed: 0.0004, Latency: 14 * time.Millisecond}, "CRM": {PerMinute: 3300, Failed: 0.002, Latency: 22 * time.Millisecond},
		"Warehouse": {PerMinute: 1800, Failed: 0.001, Latency: 31 * time.Millisecond, DownFor: 12 * time.Minute},
		"Shop 42":   {PerMinute: 12, Failed: 0.03, Latency: 60 * time.Millisecond}, "Berlin ERP": {PerMinute: 110, Latency: 48 * time.Millisecond},
	} {
		p.Subscription = s.subscriptions[name]
		list = append(list, p)
	}
	s.past.SeedTraffic(list...)
	for tenant, rate := range map[string]float64{"globex": 5200, "umbrella": 310} {
		n := s.gateway.Of(s.t, tenant)
		source := must1(s.api.ListSources(ctx, tenant, client.ListSourcesParams{})).Items[0]
		n.SeedTraffic(gatewaytest.PastTraffic{Source: source.ID, PerMinute: rate})
	}
}
