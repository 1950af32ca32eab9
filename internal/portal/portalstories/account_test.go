package portalstories_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// account is the tenant of a customer, with endpoints of the customer and of others. Nothing changes by
// itself in it.
type account struct {
	*gatewaytest.Tenant
	t       *testing.T
	at      *gatewaytest.Receiver
	own     resource
	foreign map[string]resource // by what it is
}

// resource is an endpoint with a delivery and a replay.
type resource struct{ endpoint, delivery, replay string }

// secretName is in the name of everything that the customer must not see.
const secretName = "Hidden"

func newAccount(t *testing.T, g *gatewaytest.Gateway, slug string) *account {
	t.Helper()
	a := &account{Tenant: g.Tenant(t, slug), t: t, at: gatewaytest.NewReceiver(t), foreign: map[string]resource{}}
	a.at.Answer(http.StatusInternalServerError)
	defineTypes(t, a.Tenant)
	own := a.subscribe("Own", globex)
	names := map[string]string{
		"another customer":                a.subscribe(secretName+" 1", "initech"),
		"a scope with the same beginning": a.subscribe(secretName+" 2", "globex-2"),
		"every scope":                     a.subscribe(secretName+" 3", "*"),
		"the customer and another one":    a.subscribe(secretName+" 4", globex, "initech"),
		"no scope":                        a.subscribe(secretName + " 5"),
	}
	for _, scope := range []string{globex, "initech", "globex-2"} {
		publish(t, a.Tenant, scope, "invoice.paid", `{"of":"`+scope+`","note":"`+secretName+`"}`)
	}
	a.own = a.resourceOf(own)
	for name, id := range names {
		a.foreign[name] = a.resourceOf(id)
	}
	return a
}

// subscribe creates an endpoint of a scope.
func (a *account) subscribe(name string, scope ...string) (id string) {
	a.t.Helper()
	return gatewaytest.Must(a.Client.CreateSubscription(a.t.Context(), a.Slug, client.SubscriptionCreate{
		Name: name, URL: a.at.URL, EventTypes: []string{"invoice.paid"}, ScopeFilter: scope,
		Retry: &client.DeliveryRetry{MaxRetries: new(int64(0))}})).ID
}

// resourceOf waits until a delivery of an endpoint has failed, and replays nothing.
func (a *account) resourceOf(endpoint string) resource {
	a.t.Helper()
	r := resource{endpoint: endpoint, delivery: deliveryOf(a.t, a.Tenant, endpoint, client.DeliveryStatusDead)}
	r.replay = gatewaytest.Must(a.Client.ReplaySubscription(a.t.Context(), a.Slug, endpoint, client.SubscriptionReplay{
		Since: time.Now().Add(-time.Hour), Status: []client.DeliveryStatus{client.DeliveryStatusSuccess}})).ReplayID
	for {
		found := gatewaytest.Must(a.Client.GetReplay(a.t.Context(), a.Slug, endpoint, r.replay))
		if found.Status != client.ReplayStatusRunning {
			return r
		}
	}
}
