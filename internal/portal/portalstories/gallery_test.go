package portalstories_test

import (
	"testing"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// The hosts of the scene's customer.
const (
	production = "hooks.globex.example"
	accounting = "erp.globex.example"
	staging    = "staging.globex.example"
	globex     = "globex"
)

// gallery is a scene without hostile text, for the screenshots: a customer with a healthy, a failing and a
// paused endpoint.
type gallery struct {
	place
	*gatewaytest.Tenant
	t   *testing.T
	net *internet
}

func newGallery(t *testing.T) (*gatewaytest.Gateway, *gallery) {
	t.Helper()
	net := newInternet(t, production, accounting, staging)
	g := gatewaytest.Start(t, append(net.env, lookOf(t)...)...)
	s := &gallery{t: t, net: net, Tenant: g.Tenant(t, "acme")}
	defineTypes(t, s.Tenant)
	s.healthy = s.endpoint("Production", production, "invoice.created", "invoice.paid", "invoice.overdue", "payment.failed")
	s.failing = s.endpoint("Accounting sync", accounting, "invoice.paid", "refund.created")
	s.pause(s.endpoint("Staging", staging, "invoice.created", "invoice.paid"))
	s.delivered = s.deliver()
	s.failed = s.fail()
	return g, s
}

func (s *gallery) endpoint(name, host string, types ...string) (id string) {
	s.t.Helper()
	created := gatewaytest.Must(s.Client.CreateSubscription(s.t.Context(), s.Slug, client.SubscriptionCreate{
		Name: name, URL: s.net.hosts[host].URL, EventTypes: types, ScopeFilter: []string{globex},
		Headers:              map[string]string{"X-Environment": "production"},
		Retry:                &client.DeliveryRetry{MaxRetries: new(int64(1)), InitialDelayMs: new(int64(100))},
		DisableAfterFailures: new(int64(3))}))
	return created.ID
}

func (s *gallery) pause(id string) {
	s.t.Helper()
	gatewaytest.Must(s.Client.PauseSubscription(s.t.Context(), s.Slug, id))
}

// deliver publishes what the healthy endpoint receives, and returns its newest delivery.
func (s *gallery) deliver() (delivery string) {
	s.t.Helper()
	kinds := []string{"invoice.created", "invoice.created", "payment.failed", "invoice.created", "invoice.overdue"}
	s.net.hosts[production].AnswerText(200, `{"received": true}`)
	for i := range 40 {
		publish(s.t, s.Tenant, globex, kinds[i%len(kinds)], invoice(i))
		s.net.hosts[production].Next()
	}
	publish(s.t, s.Tenant, globex, "invoice.created", invoice(40))
	s.net.hosts[production].Next()
	return deliveryOf(s.t, s.Tenant, s.healthy, client.DeliveryStatusSuccess)
}

// fail publishes until the failing endpoint is disabled, and returns one of its deliveries.
func (s *gallery) fail() (delivery string) {
	s.t.Helper()
	at := s.net.hosts[accounting]
	for i := range 12 {
		publish(s.t, s.Tenant, globex, "refund.created", invoice(i))
		at.Next()
	}
	at.AnswerText(503, `{"error": "maintenance", "message": "The ledger is being migrated. Try again later."}`)
	const lost = 3
	for i := range lost {
		publish(s.t, s.Tenant, globex, "refund.created", invoice(i))
		at.Next()
		at.Next() // the retry
	}
	return deliveryOf(s.t, s.Tenant, s.failing, client.DeliveryStatusDead)
}
