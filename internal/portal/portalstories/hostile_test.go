package portalstories_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// hostile is a customer's place in which every text that somebody chooses is hostile.
type hostile struct {
	place
	*gatewaytest.Tenant
	t  *testing.T
	at *gatewaytest.Receiver
}

func newHostile(t *testing.T, g *gatewaytest.Gateway) *hostile {
	t.Helper()
	h := &hostile{Tenant: g.Tenant(t, "hostile"), t: t, at: gatewaytest.NewReceiver(t)}
	gatewaytest.Must(h.Client.PutEventType(t.Context(), h.Slug, "invoice.paid", client.PutEventTypeParams{}, client.EventTypePut{
		Category: new(attack), Description: new(attack + long), Visibility: new(client.EventTypeVisibilityPortal),
		Schema: map[string]any{"type": "object", "description": attack, "examples": []any{map[string]any{attack: attack + long}}}}))
	h.healthy = h.subscribe(client.SubscriptionCreate{Transform: &client.Transform{
		Type: "jmespath", Expression: "{\"text\": `" + quoted(attack) + "`, data: data}"}})
	h.publish()
	h.at.Next()
	h.delivered = deliveryOf(h.t, h.Tenant, h.healthy, client.DeliveryStatusSuccess)
	h.at.AnswerText(503, attack+long)
	h.failing = h.subscribe(client.SubscriptionCreate{DisableAfterFailures: new(int64(1))})
	h.publish()
	h.at.Next()
	h.at.Next()
	h.failed = deliveryOf(h.t, h.Tenant, h.failing, client.DeliveryStatusDead)
	deliveryOf(h.t, h.Tenant, h.healthy, client.DeliveryStatusDead)
	return h
}

// long is a name without a place to break a line, and name that of an endpoint.
var (
	long = strings.Repeat("wide", 25)
	name = attack + long
)

func quoted(text string) string { return string(gatewaytest.Must(json.Marshal(text))) }

func (h *hostile) subscribe(s client.SubscriptionCreate) (id string) {
	h.t.Helper()
	s.Name, s.URL, s.EventTypes = name, h.at.URL, []string{"invoice.paid", long + ".*"}
	s.ScopeFilter = []string{globex, globex + "/" + attack}
	s.Headers, s.Retry = map[string]string{"X-Attack": attack, long: long}, &client.DeliveryRetry{MaxRetries: new(int64(0))}
	return gatewaytest.Must(h.Client.CreateSubscription(h.t.Context(), h.Slug, s)).ID
}

func (h *hostile) publish() {
	h.t.Helper()
	data := map[string]any{attack: map[string]any{"nested": []any{attack, 1, nil, long}}}
	publish(h.t, h.Tenant, globex, "invoice.paid", string(gatewaytest.Must(json.Marshal(data))))
}

// innocent lists the pages that show no text of a sender.
var innocent = []string{"portal-not-found", "portal-link-wrong"}

func TestHostileTextIsShownAsText(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Shared(t)
	h := newHostile(t, g)
	p := browsertest.New(t)
	p.Open(h.PortalLink(globex, false))
	p.Allow("401 (Unauthorized)")
	p.Allow("404 (Not Found)")
	for _, page := range h.pages() {
		t.Run(page.name, func(t *testing.T) {
			open(t, p, g.URL+page.path)
			shows := `document.documentElement.outerHTML.includes("window.attacked=1")`
			if slices.Contains(innocent, page.name) == browsertest.Eval[bool](p, shows) {
				t.Errorf("the page shows hostile text: %t", slices.Contains(innocent, page.name))
			}
		})
	}
	p.Open(g.URL + "/portal/endpoints/" + h.healthy)
	p.View(browsertest.Light)
	p.ClickName("Delete endpoint")
	p.WaitText("#confirm[open]", "Delete "+name+"?")
	check(t, p)
	p.Press("Escape")
	p.WaitGone("#confirm[open]")
	p.ClickName("Rotate secret")
	gatewaytest.Confirm(p, "Create a new signing secret?")
	p.WaitText("h1", "New signing secret")
	check(t, p)
}
