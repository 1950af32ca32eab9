package gatewaytest

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/cli/send"
)

// Secret is the secret of the sources of this package.
const Secret = "a-secret-for-tests"

// Source is the slug of the source that Tenant creates.
const Source = "github"

// Tenant is a tenant with the source Source, which publishes each push as the event push.
type Tenant struct {
	Slug    string
	Client  *client.Client // with the admin key
	gateway *Gateway
	t       testing.TB
}

// Tenant creates a tenant with a slug that no other test uses. The tenant has the source Source with
// one route, which publishes pushes to the tenant's subscribers with the event type github.push.
func (g *Gateway) Tenant(t testing.TB, slug string) *Tenant {
	t.Helper()
	ctx := t.Context()
	if _, err := g.Admin.CreateTenant(ctx, client.TenantCreate{Slug: slug, Name: slug}); err != nil {
		t.Fatal(err)
	}
	provider, eventType := Source, "github.push"
	source := client.SourceCreate{Slug: Source, Provider: &provider, Secrets: []string{Secret}}
	if _, err := g.Admin.CreateSource(ctx, slug, source); err != nil {
		t.Fatal(err)
	}
	route := client.RouteCreate{Name: "pushes", FilterEventTypes: []string{"push"},
		Targets: []client.Target{{Type: client.TargetTypePublish, EventType: &eventType}}}
	if _, err := g.Admin.CreateRoute(ctx, slug, Source, route); err != nil {
		t.Fatal(err)
	}
	return g.Of(t, slug)
}

// Of returns a tenant that exists.
func (g *Gateway) Of(t testing.TB, slug string) *Tenant {
	return &Tenant{Slug: slug, Client: g.Admin, gateway: g, t: t}
}

// Key creates a key with scopes such as read and manage.
func (n *Tenant) Key(scopes ...string) string {
	n.t.Helper()
	key, err := n.Client.CreateKey(n.t.Context(), n.Slug, client.KeyCreate{Name: "a test", Scopes: scopes})
	if err != nil {
		n.t.Fatal(err)
	}
	return *key.Key
}

// Subscribe creates a subscription of a receiver for event types, all if none are given.
func (n *Tenant) Subscribe(name string, r *Receiver, eventTypes ...string) client.SubscriptionCreated {
	n.t.Helper()
	if len(eventTypes) == 0 {
		eventTypes = []string{"*"}
	}
	s, err := n.Client.CreateSubscription(n.t.Context(), n.Slug,
		client.SubscriptionCreate{Name: name, URL: r.URL, EventTypes: eventTypes})
	if err != nil {
		n.t.Fatal(err)
	}
	return s
}

// Push sends a push that is signed as GitHub signs it, and returns the id of the event. A delivery id
// that was sent before is a duplicate; an empty one is new.
func (n *Tenant) Push(deliveryID string) string {
	n.t.Helper()
	status, body := n.Send(send.Sample{Provider: "github", ID: deliveryID}, Secret)
	var answer send.Answer
	if err := json.Unmarshal(body, &answer); status != http.StatusOK || err != nil {
		n.t.Fatalf("the push was answered %d %s", status, body)
	}
	return answer.EventID
}

// Send sends a webhook to the source Source and returns the response. Another secret is refused.
func (n *Tenant) Send(webhook send.Sample, secret string) (status int, body []byte) {
	n.t.Helper()
	r, err := webhook.Request(n.t.Context(), n.gateway.URL+ingest.Path(n.Slug, Source), secret, time.Now())
	if err != nil {
		n.t.Fatal(err)
	}
	response, err := n.gateway.http.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if body, err = io.ReadAll(response.Body); err != nil {
		n.t.Fatal(err)
	}
	return response.StatusCode, body
}
