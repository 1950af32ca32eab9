package consolepages_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// downFor is how long the receiver Warehouse has failed.
const downFor = 12 * time.Minute

// remember inserts the past: events with their deliveries, and the traffic of a day.
func (s *showroom) remember() {
	s.find()
	s.settlePromises()
	s.past.SeedPast(append(s.deliveredEvents(), s.deadEvents()...))
	s.traffic()
	s.past.FailSince(s.failing, downFor)
}

// find finds the execution and the promise that the event of the story has started.
func (s *showroom) find() {
	ctx := s.t.Context()
	for _, work := range gatewaytest.Must(s.api.ListWork(ctx, s.slug, client.ListWorkParams{})).Items {
		if work.EventID != nil && *work.EventID == s.event && work.Kind == "settle-payment" {
			s.execution = work.ID
		}
	}
	s.promise = gatewaytest.Must(s.api.ListPromises(ctx, s.slug, client.ListPromisesParams{})).Items[0].ID
}

// settlePromises creates promises in each state.
func (s *showroom) settlePromises() {
	ctx := s.t.Context()
	create := func(key string, timeout *int64) string {
		body := client.CreatePromiseRequest{IdempotencyKey: key, TimeoutSeconds: timeout}
		return gatewaytest.Must(s.api.CreatePromise(ctx, s.slug, body)).ID
	}
	approved := client.ResolveRequest{Value: map[string]any{"approved": true, "by": "ada"}}
	gatewaytest.Must(s.api.ResolvePromise(ctx, s.slug, create("approval:refund-1003", nil), approved))
	refused := client.RejectRequest{Error: "The order was shipped."}
	gatewaytest.Must(s.api.RejectPromise(ctx, s.slug, create("approval:refund-1007", nil), refused))
	create("approval:discount-55", new(int64(3600)))
}

// deliveredEvents returns events whose deliveries succeeded, some after retries.
func (s *showroom) deliveredEvents() (past []gatewaytest.PastEvent) {
	const events = 110
	random := rand.New(rand.NewPCG(1, 2)) // the same past in every run
	to := func(names ...string) (list []gatewaytest.PastDelivery) {
		for _, name := range names {
			list = append(list, gatewaytest.PastDelivery{Subscription: s.subscriptions[name], Attempts: attempts(random)})
		}
		return list
	}
	for i := range events {
		at := time.Now().Add(-downFor - time.Minute - time.Duration(i)*97*time.Second)
		payment := fmt.Sprintf(`{"payment":"pi_%d","amount":%d,"currency":"eur"}`, i, 900+i*37)
		past = append(past,
			gatewaytest.PastEvent{At: at, Type: "payment.succeeded", Status: "delivered", Body: payment, Deliveries: to("Billing", "CRM")},
			gatewaytest.PastEvent{At: at.Add(-31 * time.Second), Type: "order.created", Status: "delivered",
				Body: fmt.Sprintf(`{"order":"#%d"}`, 900-i), Deliveries: to("Warehouse", "CRM", "Data lake")})
	}
	return past
}

// attempts returns the attempts of a delivery that succeeded, rarely at the second attempt.
func attempts(random *rand.Rand) []gatewaytest.PastAttempt {
	const oneIn = 19
	took := func() time.Duration { return time.Duration(8+random.ExpFloat64()*22) * time.Millisecond }
	const start, retry = 4 * time.Millisecond, 1090 * time.Millisecond
	if random.IntN(oneIn) > 0 {
		return []gatewaytest.PastAttempt{{After: start, Took: took(), Status: 200}}
	}
	return []gatewaytest.PastAttempt{
		{After: start, Took: took(), Status: 502, Error: "the receiver answered 502 Bad Gateway", Excerpt: "<h1>502 Bad Gateway</h1>"},
		{After: retry, Took: took(), Status: 200},
	}
}

// cause is why deliveries of a subscription are dead.
type cause struct {
	subscription, event string
	count               int
	ago                 time.Duration
	attempt             gatewaytest.PastAttempt
}

var causes = []cause{
	{"Shop 42", "order.created", 14, 3 * time.Hour, gatewaytest.PastAttempt{Status: 404,
		Error: "shop42.example.com answered 404 Not Found", Excerpt: "no such shop"}},
	{"Warehouse", "order.shipped", 6, 5 * time.Hour, gatewaytest.PastAttempt{Status: 422,
		Error: "warehouse.example.com answered 422 Unprocessable Entity", Excerpt: `{"error":"parcel is required"}`}},
	{"Billing", "payment.refunded", 3, 9 * time.Hour, gatewaytest.PastAttempt{Status: 401,
		Error: "billing.example.com answered 401 Unauthorized", Excerpt: "token expired"}},
}

// deadEvents returns events whose deliveries are dead.
func (s *showroom) deadEvents() (past []gatewaytest.PastEvent) {
	for _, c := range causes {
		c.attempt.Took = 19 * time.Millisecond
		to := gatewaytest.PastDelivery{Subscription: s.subscriptions[c.subscription], Attempts: []gatewaytest.PastAttempt{c.attempt}}
		for i := range c.count {
			past = append(past, gatewaytest.PastEvent{At: time.Now().Add(-c.ago + time.Duration(i)*4*time.Minute), Type: c.event,
				Status: "delivered", Body: `{"order":"#877"}`, Deliveries: []gatewaytest.PastDelivery{to}})
		}
	}
	return past
}

// traffic inserts the traffic of a day.
func (s *showroom) traffic() {
	perMinute := map[string]float64{"stripe": 2900, "shopify": 4100, "github": 190, "slack": 60, "warehouse": 800}
	refused := map[string]float64{"github": 0.004}
	var list []gatewaytest.PastTraffic
	for _, source := range s.sourcesOf(s.slug) {
		list = append(list, gatewaytest.PastTraffic{Source: source.ID, PerMinute: perMinute[source.Slug], Refused: refused[source.Slug]})
	}
	for name, p := range map[string]gatewaytest.PastTraffic{
		"Billing":    {PerMinute: 2900, Failed: 0.0004, Latency: 14 * time.Millisecond},
		"CRM":        {PerMinute: 3300, Failed: 0.002, Latency: 22 * time.Millisecond},
		"Warehouse":  {PerMinute: 1800, Failed: 0.001, Latency: 31 * time.Millisecond, DownFor: downFor},
		"Shop 42":    {PerMinute: 12, Failed: 0.03, Latency: 60 * time.Millisecond},
		"Berlin ERP": {PerMinute: 110, Latency: 48 * time.Millisecond},
	} {
		p.Subscription = s.subscriptions[name]
		list = append(list, p)
	}
	s.past.SeedTraffic(list...)
	for tenant, rate := range map[string]float64{"globex": 5200, "umbrella": 310} {
		source := s.sourcesOf(tenant)[0]
		s.gateway.Of(s.t, tenant).SeedTraffic(gatewaytest.PastTraffic{Source: source.ID, PerMinute: rate})
	}
}

func (s *showroom) sourcesOf(tenant string) []client.Source {
	return gatewaytest.Must(s.api.ListSources(s.t.Context(), tenant, client.ListSourcesParams{})).Items
}
