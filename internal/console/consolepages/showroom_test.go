package consolepages_test

import (
	_ "embed"
	"encoding/json"
	"net/url"
	"testing"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// showroom is a gateway as a company has it, for screenshots.
type showroom struct {
	*scene
	t             *testing.T
	internet      *gatewaytest.Internet
	api           *client.Client
	past          *gatewaytest.Tenant
	subscriptions map[string]string // ids by name
}

// TestScreenshotsOfEveryPage shows a gateway as a company has it. `make screenshots` writes the images.
func TestScreenshotsOfEveryPage(t *testing.T) {
	t.Parallel()
	visit(t, newShowroom(t).scene, func(t *testing.T, p *browsertest.Page, page shown) {
		t.Helper()
		if v := p.Vitals(); v.LargestShift > maxShift {
			t.Errorf("layout shift, got %.3f of %s, want at most %.1f", v.LargestShift, v.ShiftedAt, maxShift)
		}
		p.Axe()
		p.View(browsertest.Dark)
		p.Axe()
		p.View(browsertest.Phone)
		if wide := p.Overflow(); wide > 0 {
			t.Errorf("the page is %d pixels wider than a phone", wide)
		}
		if !page.hasNoImage {
			p.Screenshot(page.name)
		}
	})
}

// publicURL is the URL of the gateway as the pages show it.
const publicURL = "https://hooks.acme.example"

//go:embed testdata/showroom.json
var showroomConfiguration []byte

func newShowroom(t *testing.T) *showroom {
	t.Helper()
	internet := gatewaytest.NewInternet(t)
	g := gatewaytest.Start(t, append(internet.Env(), "EVENTHOOK_PUBLIC_URL="+publicURL, "EVENTHOOK_TRUSTED_PROXIES=127.0.0.0/8")...)
	gatewaytest.Must(g.Admin.ApplyConfigurationFrom(t.Context(), client.ApplyConfigurationParams{}, showroomConfiguration))
	n := g.Of(t, "acme")
	s := &showroom{t: t, internet: internet, api: g.Admin, past: n, subscriptions: map[string]string{},
		scene: &scene{gateway: g, slug: n.Slug, key: n.Key, empty: "initech", lookup: "s", eventType: "payment.succeeded",
			source: "stripe", waiting: "paddle", refused: "github"}}
	s.search = url.Values{"path": {"body.data.object.currency"}, "op": {"$eq"}, "value": {"eur"}}.Encode()
	for _, item := range gatewaytest.Must(s.api.ListSubscriptions(t.Context(), n.Slug, client.ListSubscriptionsParams{})).Items {
		s.subscriptions[item.Name] = item.ID
	}
	s.subscription, s.failing = s.subscriptions["Billing"], s.subscriptions["Warehouse"]
	s.configure()
	s.live()
	s.remember()
	return s
}

// configure creates the resources that the configuration cannot contain.
func (s *showroom) configure() {
	ctx := s.t.Context()
	for _, tenant := range []client.TenantCreate{{Slug: "hooli", Name: "Hooli Search"}, {Slug: "stark", Name: "Stark Energy"}} {
		gatewaytest.Must(s.api.CreateTenant(ctx, tenant))
	}
	suspended := client.TenantPatch{Status: new(client.TenantStatusSuspended)}
	gatewaytest.Must(s.api.UpdateTenant(ctx, "hooli", client.UpdateTenantParams{}, suspended))
	for _, key := range []client.KeyCreate{
		{Name: "billing service", Scopes: []string{"publish", "read"}}, {Name: "payments worker", Scopes: []string{"work"}},
		{Name: "terraform", Scopes: []string{"read", "manage"}}, {Name: "grafana", Scopes: []string{"read"}},
	} {
		gatewaytest.Must(s.api.CreateKey(ctx, s.slug, key))
	}
	s.catalogue()
	s.agents()
	s.audit()
}

// catalogue describes event types.
func (s *showroom) catalogue() {
	var schema map[string]any
	must(s.t, json.Unmarshal([]byte(`{"type":"object","required":["payment","amount","currency"],"properties":{
		"payment":{"type":"string","examples":["pi_3PkQ2eK9"]},"amount":{"type":"integer","minimum":0,"examples":[4200]},
		"currency":{"type":"string","enum":["eur","usd"]}}}`), &schema))
	for _, e := range []struct{ name, category, about string }{
		{"payment.succeeded", "payments", "A payment was captured. The money is on its way."},
		{"payment.failed", "payments", "The bank or the customer declined a payment."},
		{"payment.refunded", "payments", "A payment was paid back, in part or completely."},
		{"order.created", "orders", "A customer has placed an order."},
		{"order.shipped", "orders", "A parcel of the order has left the warehouse."},
		{"order.cancelled", "orders", "The order was cancelled before it was shipped."},
		{"customer.updated", "customers", "A customer changed an address or a name."},
		{"release.published", "engineering", "A new version of the shop is live."},
	} {
		portal := client.EventTypeVisibility("portal")
		put := client.EventTypePut{Category: &e.category, Description: &e.about, Visibility: &portal}
		if e.category == "payments" {
			put.Schema = schema
		}
		gatewaytest.Must(s.api.PutEventType(s.t.Context(), s.slug, e.name, client.PutEventTypeParams{}, put))
	}
}

// agents registers agents, two of which run.
func (s *showroom) agents() {
	for i, name := range []string{"berlin-1", "berlin-2", "lyon-1"} {
		label := "site:" + name[:len(name)-2]
		body := client.AgentCreate{Name: name, Labels: []string{label, "env:prod"}}
		agent := gatewaytest.Must(s.api.CreateAgent(s.t.Context(), s.slug, body))
		if i < 2 {
			s.run(agent)
		}
		if i == 0 {
			s.agent = agent.ID
		}
	}
}

// run claims deliveries as an agent until the test ends. It sends no reports.
func (s *showroom) run(agent client.AgentCreated) {
	c := s.gateway.Client(s.t, agent.Key)
	ctx := s.t.Context()
	go func() {
		for ctx.Err() == nil {
			body := client.AgentClaimRequest{LeaseSeconds: new(int64(30)), WaitSeconds: new(int64(10)), Version: new("1.4.0")}
			if _, err := c.ClaimDeliveries(ctx, s.slug, body); err != nil {
				return
			}
		}
	}()
}

// audit makes changes as several people.
func (s *showroom) audit() {
	ctx := s.t.Context()
	key := gatewaytest.Must(s.api.CreateKey(ctx, s.slug, client.KeyCreate{Name: "Ada (platform)", Scopes: []string{"read", "manage"}}))
	ada := s.gateway.Client(s.t, *key.Key)
	gatewaytest.Must(ada.PauseSubscription(ctx, s.slug, s.subscriptions["Data lake"]))
	described := client.SourcePatch{Description: new("Pushes and releases of acme/shop.")}
	gatewaytest.Must(ada.UpdateSource(ctx, s.slug, "github", client.UpdateSourceParams{}, described))
	for _, route := range gatewaytest.Must(ada.ListRoutes(ctx, s.slug, s.source, client.ListRoutesParams{})).Items {
		if route.Name == "settle payments" {
			s.route = route.ID
		}
	}
	const priority = 40
	patch := client.RoutePatch{Priority: new(int64(priority))}
	gatewaytest.Must(ada.UpdateRoute(ctx, s.slug, s.source, s.route, client.UpdateRouteParams{}, patch))
}
