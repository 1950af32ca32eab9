package portalstories_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// customer is a person with a link to the portal of a tenant.
type customer struct {
	*browsertest.Page
	t        *testing.T
	n        *gatewaytest.Tenant
	receiver *gatewaytest.Receiver
	id       string // of the endpoint
	secret   string // of the endpoint
	invoices int    // published
}

// TestCustomer follows a customer with a link of the tenant's program: it adds an endpoint, tests it, sees
// deliveries, sends failed ones again, recovers from an outage, rotates the secret, and leaves.
func TestCustomer(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Shared(t)
	n := g.Tenant(t, "shop")
	defineTypes(t, n)
	program := g.Client(t, n.Key("manage"))
	link := gatewaytest.Must(program.CreatePortalLink(t.Context(), n.Slug, client.PortalLinkCreate{Scope: globex}))
	c := &customer{Page: browsertest.New(t), t: t, n: n, receiver: gatewaytest.NewReceiver(t)}
	c.Open(link.URL)
	c.readsTheCatalogue()
	c.makesMistakes()
	c.addsAnEndpoint()
	c.testsIt()
	c.seesADelivery()
	c.sendsAFailedDeliveryAgain()
	c.replaysAnOutage()
	c.recovers()
	c.rotatesTheSecret()
	c.pausesAndResumes()
	c.edits()
	c.deletesIt()
	c.signsOut()
}

// endpoint opens the page of the endpoint.
func (c *customer) endpoint() {
	c.t.Helper()
	c.ClickName("Endpoints")
	c.WaitText("h1", "Endpoints")
	c.Click(".endpoint-card")
	c.WaitVisible("#status")
}

// publish publishes a paid invoice of the customer.
func (c *customer) publish() {
	c.t.Helper()
	c.invoices++
	publish(c.t, c.n, globex, "invoice.paid", invoice(c.invoices))
}

// receives returns the delivery of the newest published invoice.
func (c *customer) receives() gatewaytest.Delivery {
	c.t.Helper()
	d := c.receiver.Next()
	if want := fmt.Sprintf(`"inv_%05d"`, 48210+c.invoices); !strings.Contains(string(d.Body), want) {
		c.t.Errorf("the endpoint got %s, want the invoice %s", d.Body, want)
	}
	return d
}

func (c *customer) readsTheCatalogue() {
	c.WaitText("main", "No endpoints yet")
	c.ClickName("See the event types")
	c.WaitText("main", "An invoice was paid in full.")
	c.ClickName("Example")
	c.WaitText("details[open] pre", `"id": "inv_48210"`)
	c.ClickName("Add endpoint for invoice.paid")
	c.WaitText("h1", "Add an endpoint")
	if !browsertest.Eval[bool](c.Page, `document.querySelector('[value="invoice.paid"]').checked`) {
		c.t.Error("the chosen event type is not checked")
	}
}

func (c *customer) makesMistakes() {
	c.Fill("#f-url", c.receiver.URL)
	c.Fill("#f-name", "Orders")
	c.Click(`[value="invoice.paid"]`)
	c.ClickName("Add endpoint")
	c.WaitText("#event-types-fault", "choose at least one event type")
	c.Allow("422 (Unprocessable Entity)")
	c.Click(`[aria-label="Select all of Invoices"]`)
	if n := c.Count(`[name="event_types"]:checked`); n != 3 {
		c.t.Errorf("all of Invoices are %d event types, want 3", n)
	}
	c.Click(`[aria-label="Select all of Invoices"]`)
	c.Click(`[value="invoice.paid"]`)
	c.Click(`[name="validate"]`)
	c.receiver.Answer(404)
	c.ClickName("Add endpoint")
	c.WaitText("form", "404")
	c.receiver.Next()
}

func (c *customer) addsAnEndpoint() {
	c.receiver.Answer(200)
	c.ClickName("Add endpoint")
	c.WaitText("h1", "Endpoint added")
	c.receiver.Next()
	c.secret = c.Text("#secret")
	c.ClickName("Copy")
	if copied := gatewaytest.Copied(c.Page); copied != c.secret {
		c.t.Errorf("copied %q, want the secret", copied)
	}
	c.Reload()
	c.WaitText("h1", "Orders")
	if strings.Contains(c.Text("body"), c.secret) {
		c.t.Error("the secret is shown a second time")
	}
	found := gatewaytest.Must(c.n.Client.ListSubscriptions(c.t.Context(), c.n.Slug, client.ListSubscriptionsParams{})).Items
	if len(found) != 1 || !slices.Equal(found[0].ScopeFilter, []string{globex}) ||
		!slices.Equal(found[0].EventTypes, []string{"invoice.paid"}) {
		c.t.Fatalf("the tenant has the endpoints %+v, want one of the customer", found)
	}
	c.id = found[0].ID
	// The tenant limits retries, so that an outage takes no time.
	gatewaytest.Must(c.n.Client.UpdateSubscription(c.t.Context(), c.n.Slug, c.id, client.UpdateSubscriptionParams{},
		client.SubscriptionPatch{Retry: &client.DeliveryRetry{MaxRetries: new(int64(0))},
			DisableAfterFailures: new(int64(3))}))
}

func (c *customer) testsIt() {
	c.ClickName("Send test event")
	gatewaytest.Confirm(c.Page, "Send one test event to")
	c.WaitText(".notice.ok", "The test event was delivered: your endpoint answered 200")
	d := c.receiver.Next()
	if kind := d.Header.Get("X-Eventhook-Event-Type"); kind != "system.webhook_test" || !c.isSigned(d, c.secret) {
		c.t.Errorf("the endpoint got a %s with the signature %q, want a test event that the shown secret signs",
			kind, d.Header.Get("Webhook-Signature"))
	}
}

func (c *customer) seesADelivery() {
	publish(c.t, c.n, "initech", "invoice.paid", invoice(999))
	publish(c.t, c.n, globex, "invoice.created", invoice(998))
	c.publish()
	c.receives()
	c.endpoint()
	c.ClickName("invoice.paid")
	c.WaitText("h1", "invoice.paid")
	c.WaitText("#delivery .timeline", "200")
	c.WaitText("[aria-labelledby=payload] .tree", "GLX-2026-0119")
	c.ClickName("Headers")
	c.WaitText("[aria-labelledby=payload] .facts", "Webhook-Id")
	if headers := c.Text("[aria-labelledby=payload] .facts"); strings.Contains(headers, "Attempt") {
		c.t.Errorf("the page shows headers of the next attempt:\n%s", headers)
	}
}
