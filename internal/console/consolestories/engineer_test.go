package consolestories_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// engineer is a person of the tenant whose customer misses events.
type engineer struct {
	*browsertest.Page
	t        *testing.T
	url      string // of the source
	endpoint *gatewaytest.Receiver
	missed   []string // orders that the endpoint answered with 500
}

// TestEngineer finds a customer's event by its payload, sees the 500 of the customer's endpoint, and
// replays the outage. Then the engineer sets up a source that consumes messages, whose broker cannot be reached.
func TestEngineer(t *testing.T) {
	g := gatewaytest.Shared(t)
	n := g.Tenant(t, "engineer")
	e := &engineer{t: t, url: g.URL + ingest.Path(n.Slug, gatewaytest.Source), endpoint: gatewaytest.NewReceiver(t)}
	other := gatewaytest.NewReceiver(t)
	subscribe(t, n, "Customer 42", e.endpoint, "cus_42")
	subscribe(t, n, "Customer 7", other, "cus_7")
	e.order("cus_42", "A-1")
	e.endpoint.Next()
	e.order("cus_7", "B-1")
	e.endpoint.AnswerText(500, "cannot reach the database "+browsertest.Attack)
	e.missed = []string{"A-2", "A-3", "A-4"}
	for _, order := range e.missed {
		e.order("cus_42", order)
		e.endpoint.Next()
	}
	other.Next()
	e.Page = g.SignIn(t, n.Key("read", "manage"), "/console")
	e.findsTheEvent()
	e.copiesIt()
	e.seesTheFailure()
	e.replaysTheOutage()
	e.consumesMessages()
	if other.Unread() > 0 {
		t.Error("the replay sent to another customer")
	}
}

// subscribe creates a subscription without retries for the events of a customer.
func subscribe(t *testing.T, n *gatewaytest.Tenant, name string, r *gatewaytest.Receiver, customer string) {
	t.Helper()
	gatewaytest.Must(n.Client.CreateSubscription(t.Context(), n.Slug, client.SubscriptionCreate{
		Name: name, URL: r.URL, EventTypes: []string{"github.push"},
		Filter: map[string]any{"body.customer": customer}, Retry: &client.DeliveryRetry{MaxRetries: new(int64(0))}}))
}

func (e *engineer) order(customer, order string) {
	e.t.Helper()
	body := fmt.Sprintf(`{"ref":"refs/heads/main","customer":%q,"order":{"id":%q}}`, customer, order)
	if status := push(e.t, e.url, gatewaytest.Secret, body); status != 200 {
		e.t.Fatalf("the push of %s was answered %d", order, status)
	}
}

func (e *engineer) findsTheEvent() {
	e.ClickName("Events")
	e.ClickName("Search payloads")
	e.Fill("#f-path-0", "body.customer")
	e.Fill("#f-value-0", "cus_42")
	e.Fill("#f-path-1", "body.order.id")
	e.Fill("#f-value-1", "A-3")
	e.Press("Enter")
	e.WaitText("main", "2 events match") // the push, and what its route published
	e.ClickName("push")
	e.WaitText("h1", "push")
	e.WaitText("#payload", "A-3")
}

func (e *engineer) copiesIt() {
	e.ClickName("Copy as curl")
	curl := pasted(e.Page)
	if !strings.HasPrefix(curl, "curl ") || !strings.Contains(curl, e.url) || !strings.Contains(curl, "A-3") {
		e.t.Errorf("copied as curl: %s", curl)
	}
}

func (e *engineer) seesTheFailure() {
	e.WaitText("#story .notice.failed", "1 failure")
	e.ClickName("Open the delivery")
	e.WaitText("h1", "github.push")
	e.WaitText("#story .timeline", "500")
	e.WaitText("#story .timeline pre", "cannot reach the database "+browsertest.Attack)
	e.Unharmed()
	e.ClickName("Customer 42")
	e.WaitText("h1", "Customer 42")
	e.WaitText("#health", "500")
	e.Unharmed()
}

func (e *engineer) replaysTheOutage() {
	e.endpoint.Answer(200)
	e.ClickName("Replay…")
	e.WaitText("h1", "Replay to Customer 42")
	e.Choose("#f-since", time.Now().UTC().Add(-time.Hour).Format("2006-01-02T15:04"))
	e.ClickName("Estimate…")
	e.WaitText("main", "Replay 3 deliveries to Customer 42, oldest first")
	e.ClickName("Replay 3 deliveries")
	e.WaitText(".notice.ok", "has started")
	var got []string
	for range e.missed {
		body := string(e.endpoint.Next().Body)
		for _, order := range e.missed {
			if strings.Contains(body, order) {
				got = append(got, order)
			}
		}
	}
	e.WaitText("#replays", "completed")
	slices.Sort(got)
	if !slices.Equal(got, e.missed) || e.endpoint.Unread() > 0 {
		e.t.Errorf("the endpoint got %v and %d more, want %v", got, e.endpoint.Unread(), e.missed)
	}
	sent := browsertest.Eval[string](e.Page,
		`[...document.querySelectorAll("#replays td.number")].slice(0, 4).map(c => c.innerText).join(" ")`)
	if sent != "3 3 3 0" {
		e.t.Errorf("estimate, queued, sent and dead again: %s", sent)
	}
}

func (e *engineer) consumesMessages() {
	e.ClickName("Sources")
	e.ClickName("Set up a source")
	e.ClickName("Redis stream")
	e.Fill("#f-slug", "orders")
	for name, value := range map[string]string{"url": "redis://127.0.0.1:1", "stream": "orders", "group": "eventhook", "password": "hush"} {
		e.Fill(fmt.Sprintf(`[name="consume.%s"]`, name), value)
	}
	e.ClickName("Create source")
	e.WaitText("#waiting", "The broker cannot be used")
	e.ClickName("Open the settings")
	e.Fill(`[name="consume.stream"]`, "payments")
	e.ClickName("Save")
	e.WaitText(".notice.ok", "The source is changed.")
	kept := browsertest.Eval[string](e.Page, `["stream", "password"].map(m => document.querySelector('[name="consume.' + m + '"]').value).join(" ")`)
	if kept != "payments [redacted]" {
		e.t.Errorf("stream and password after the change: %s", kept)
	}
}
