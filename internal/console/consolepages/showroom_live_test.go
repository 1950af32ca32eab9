package consolepages_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
	"github.com/eventhook/eventhook/internal/cli/send"
	"github.com/eventhook/eventhook/worker"
)

// Numbers of received orders and payments, and of the published events for the CRM.
const (
	orders    = 12
	payments  = 4
	published = 3
)

// live receives webhooks, sends their deliveries and runs workers.
func (s *showroom) live() {
	s.answers()
	s.refused()
	for i := range orders {
		s.webhook("shopify", send.Sample{Provider: "shopify", Body: fmt.Appendf(nil, `{"id":%d,"name":"#%d","email":"ada@example.com",
"currency":"EUR","total_price":"%d.90","financial_status":"paid","customer":{"id":"customer-%d"}}`, 7340021+i, 1001+i, 19+7*i, 40+i%4)})
	}
	for _, ref := range []string{"refs/heads/main", "refs/heads/feature/round-prices", "refs/tags/v2.4.0"} {
		s.webhook("github", send.Sample{Provider: "github", Body: fmt.Appendf(nil, `{"ref":%q,"repository":{"full_name":"acme/shop"},
"pusher":{"name":"ada-example"},"head_commit":{"message":"Round prices up, not down"}}`, ref)})
	}
	s.webhook("slack", send.Sample{Provider: "slack"})
	s.publish()
	s.pay()
}

// answers sets how the receivers answer.
func (s *showroom) answers() {
	s.internet.Receiver("warehouse.example.com").AnswerText(http.StatusServiceUnavailable,
		"upstream connect error or disconnect/reset before headers. reset reason: connection timeout")
	s.internet.Receiver("analytics.example.com").AnswerText(http.StatusInternalServerError, `{"error":"partition 7 has no leader"}`)
	s.internet.Receiver("shop42.example.com").AnswerText(http.StatusNotFound, "no such shop")
}

// webhook sends a webhook of a provider and returns the id of the event.
func (s *showroom) webhook(source string, sample send.Sample) string {
	s.t.Helper()
	status, body := s.send(source, sample, gatewaytest.Secret, "54.187.174.169")
	var answer send.Answer
	if err := json.Unmarshal(body, &answer); status != http.StatusOK || err != nil {
		s.t.Fatalf("the webhook to %s was answered %d %s", source, status, body)
	}
	return answer.EventID
}

// send sends a webhook from an address, to the public name of the gateway.
func (s *showroom) send(source string, sample send.Sample, secret, from string) (status int, body []byte) {
	s.t.Helper()
	sample.PublicURL = publicURL + ingest.Path(s.slug, source)
	r := gatewaytest.Must(sample.Request(s.t.Context(), s.gateway.URL+ingest.Path(s.slug, source), secret, time.Now()))
	r.Host = strings.TrimPrefix(publicURL, "https://")
	r.Header.Set("X-Forwarded-For", from)
	r.Header.Set("X-Forwarded-Proto", "https")
	answer := gatewaytest.Must(http.DefaultClient.Do(r))
	defer func() { _ = answer.Body.Close() }()
	return answer.StatusCode, gatewaytest.Must(io.ReadAll(answer.Body))
}

// refused sends requests that GitHub's source refuses.
func (s *showroom) refused() {
	const refusals = 7
	for range refusals {
		status, body := s.send("github", send.Sample{Provider: "github"}, "the secret of another repository", "140.82.115.34")
		if status != http.StatusUnauthorized {
			s.t.Fatalf("the forged push was answered %d %s", status, body)
		}
	}
}

// publish publishes events as the programs of the company do.
func (s *showroom) publish() {
	for _, e := range []struct{ kind, data, scope string }{
		{"customer.updated", `{"customer":"cus_42","changed":["address"]}`, ""},
		{"order.cancelled", `{"order":"#1003"}`, "customer-42"},
		{"order.shipped", `{"order":"#1001","parcel":"JD0146000031"}`, "customer-42"},
		{"payment.refunded", `{"payment":"pi_3PkQ1dT0","amount":1900,"currency":"eur"}`, ""},
	} {
		event := client.EventPublish{EventType: e.kind, Data: json.RawMessage(e.data), Source: new("shop")}
		if e.scope != "" {
			event.Scope = new(json.RawMessage(fmt.Sprintf("%q", e.scope)))
		}
		gatewaytest.Must(s.api.PublishEvent(s.t.Context(), s.slug, client.PublishEventParams{}, event))
	}
}

// pay receives payments. The first of them is the event whose story the pages show: the receiver of the
// CRM answers its second attempt, and its receipt cannot be sent.
func (s *showroom) pay() {
	crm := s.internet.Receiver("crm.example.com")
	for range orders + published {
		crm.Next()
	}
	crm.AnswerText(http.StatusServiceUnavailable, "deploying, back in a second")
	s.event = s.payment("pi_3PkQ2eK9a71", 4200)
	crm.Next()
	sent := gatewaytest.Must(s.api.ListSubscriptionDeliveries(s.t.Context(), s.slug, s.subscriptions["CRM"], client.ListSubscriptionDeliveriesParams{}))
	s.delivery = sent.Items[0].ID
	crm.Answer(http.StatusOK)
	crm.Next()
	s.past.Hurry("send-receipt", 2)
	for i := range payments - 1 {
		s.payment(fmt.Sprintf("pi_3PkQ2eK9b%02d", i), 1500+900*i)
	}
	s.workers()
}

// payment receives a payment.
func (s *showroom) payment(id string, amount int) string {
	body := fmt.Appendf(nil, `{"id":"evt_%[1]s","object":"event","type":"payment_intent.succeeded","livemode":false,"created":%[3]d,
"data":{"object":{"id":%[1]q,"object":"payment_intent","amount":%[2]d,"currency":"eur","description":"Order 1001","customer":"cus_42",
"metadata":{"order":"1001"},"payment_method_types":["card"],"status":"succeeded"}}}`, id, amount, time.Now().Unix())
	return s.webhook("stripe", send.Sample{Provider: "stripe", EventType: "payment_intent.succeeded", Body: body})
}

// workers runs workers until the test ends, and waits until their work has ended.
func (s *showroom) workers() {
	key := gatewaytest.Must(s.api.CreateKey(s.t.Context(), s.slug, client.KeyCreate{Name: "ci worker", Scopes: []string{"work"}}))
	url := s.gateway.URL + "/api/tenants/" + s.slug + "/eventhook"
	handled := make(chan string, orders+payments)
	handle := func(f worker.Handler) worker.Handler {
		return func(ctx context.Context, job *worker.Job) error {
			defer func() { handled <- job.Kind }()
			return f(ctx, job)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	var ended []chan error
	for queue, kind := range map[string]string{"payments": "settle-payment", "mail": "send-receipt", "ci": "build"} {
		w := worker.New(url, *key.Key, worker.WithQueue(queue)).Handle(kind, handle(handlers[kind]))
		end := make(chan error)
		ended = append(ended, end)
		go func() { end <- w.Run(ctx) }()
	}
	s.t.Cleanup(func() {
		stop()
		for _, end := range ended {
			must(s.t, <-end)
		}
	})
	const builds = 2
	for range builds + 2*payments {
		select {
		case <-handled:
		case <-s.t.Context().Done():
			s.t.Fatal("the workers do not handle the work")
		}
	}
}

// handlers do the work of the showroom.
var handlers = map[string]worker.Handler{
	"settle-payment": func(ctx context.Context, job *worker.Job) error {
		p, err := job.MakePromise(ctx, "payout:"+job.IdempotencyKey, 72*time.Hour)
		if err != nil {
			return err
		}
		return job.Suspend(map[string]any{"step": "await the payout", "booked": true}, p)
	},
	"send-receipt": func(_ context.Context, job *worker.Job) error {
		if job.Attempt > 1 {
			return errors.New("SMTP 550 5.1.1 the mailbox bob@example.net does not exist")
		}
		job.Output = map[string]string{"message": "<" + job.ID + "@mail.acme.example>"}
		return nil
	},
	"build": func(_ context.Context, job *worker.Job) error {
		job.Output = map[string]any{"image": "registry.acme.example/shop:6b1f", "seconds": 41}
		return nil
	},
}
