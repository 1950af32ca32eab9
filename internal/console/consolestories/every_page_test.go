package consolestories_test

import (
	"encoding/json"
	"testing"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
	"github.com/eventhook/eventhook/internal/cli/send"
)

// shown is a page with the name of its screenshot.
type shown struct{ name, path string }

// scene is a tenant with a resource of each kind, whose texts are hostile wherever a sender or a
// customer chooses them.
type scene struct {
	*gatewaytest.Tenant
	t            *testing.T
	receiver     *gatewaytest.Receiver
	event        string
	subscription string
	delivery     string
	execution    string
	promise      string
	route        string
	agent        string
}

func newScene(t *testing.T, g *gatewaytest.Gateway, slug string) *scene {
	t.Helper()
	s := &scene{Tenant: g.Tenant(t, slug), t: t, receiver: gatewaytest.NewReceiver(t)}
	ctx := t.Context()
	s.receiver.Answer(500)
	created := s.Subscribe("billing "+attack, s.receiver, "*")
	s.subscription = created.ID
	task, queue := attack, "ci"
	route, err := s.Client.CreateRoute(ctx, slug, gatewaytest.Source, client.RouteCreate{Name: "builds " + attack, FilterEventTypes: []string{"push"},
		Targets: []client.Target{{Type: client.TargetTypeTask, TaskKind: &task, Queue: &queue}}})
	must(t, err)
	s.route = route.ID
	body := must1(json.Marshal(map[string]any{"ref": attack, attack: map[string]any{"nested": []any{attack, 1, nil, true}}}))
	status, answer := s.Send(send.Sample{Provider: "github", Body: body}, gatewaytest.Secret)
	var accepted send.Answer
	if err := json.Unmarshal(answer, &accepted); status != 200 || err != nil {
		t.Fatalf("the push was answered %d %s", status, answer)
	}
	s.event = accepted.EventID
	s.Send(send.Sample{Provider: "github", EventType: "x"}, "another secret")
	s.receiver.Next() // the first attempt, which is answered 500
	deliveries, err := s.Client.ListDeliveries(ctx, slug, client.ListDeliveriesParams{})
	must(t, err)
	s.delivery = deliveries.Items[0].ID
	work, err := s.Client.StartWork(ctx, slug, client.StartWorkParams{}, client.WorkStart{Type: "task", Kind: attack, Input: json.RawMessage(body)})
	must(t, err)
	s.execution = work.ID
	promise, err := s.Client.CreatePromise(ctx, slug, client.CreatePromiseRequest{IdempotencyKey: attack})
	must(t, err)
	s.promise = promise.ID
	agent, err := s.Client.CreateAgent(ctx, slug, client.AgentCreate{Name: "edge", Labels: []string{"env:prod"}})
	must(t, err)
	s.agent = agent.ID
	_, err = s.Client.PutEventType(ctx, slug, "payment.made", client.PutEventTypeParams{}, client.EventTypePut{Description: ref(attack), Category: ref("payments")})
	must(t, err)
	_, err = s.Client.PublishEvent(ctx, slug, client.PublishEventParams{}, client.EventPublish{EventType: "payment.made", Data: json.RawMessage(body)})
	must(t, err)
	return s
}

// pages lists every page of the console with the resources of the scene.
func (s *scene) pages() []shown {
	base := "/console/t/" + s.Slug
	return []shown{
		{"overview", base}, {"overview-24h", base + "?window=24h"}, {"all-tenants", "/console"},
		{"events", base + "/events"}, {"event", base + "/events/" + s.event}, {"event-search", base + "/events/search"},
		{"sources", base + "/sources"}, {"source-new", base + "/sources/new"}, {"source-new-github", base + "/sources/new?provider=github"},
		{"source", base + "/sources/" + gatewaytest.Source}, {"source-waiting", base + "/sources/" + gatewaytest.Source + "/waiting"},
		{"routes", base + "/sources/" + gatewaytest.Source + "/routes"}, {"route", base + "/sources/" + gatewaytest.Source + "/routes/" + s.route},
		{"route-new", base + "/sources/" + gatewaytest.Source + "/routes/new"},
		{"work", base + "/work"}, {"execution", base + "/work/" + s.execution}, {"promises", base + "/promises"}, {"promise", base + "/promises/" + s.promise},
		{"subscriptions", base + "/subscriptions"}, {"subscription-new", base + "/subscriptions/new"}, {"subscription", base + "/subscriptions/" + s.subscription},
		{"deliveries", base + "/deliveries"}, {"delivery", base + "/deliveries/" + s.delivery}, {"dead-letters", base + "/deliveries/dead"},
		{"agents", base + "/agents"}, {"types", base + "/types"}, {"type", base + "/types/payment.made"}, {"keys", base + "/keys"}, {"audit", base + "/audit"},
		{"tenants", "/console/tenants"}, {"tenant", "/console/tenants/" + s.Slug}, {"system", "/console/system"}, {"audit-all", "/console/audit"},
		{"search", base + "/search?id=git"},
	}
}

// Budgets of a page in compressed bytes.
const (
	maxHTML  = 80 << 10
	maxShift = 0.1
)

func TestScreenshotsOfEveryPageAreAccessibleAndSafe(t *testing.T) {
	g := gatewaytest.Shared(t)
	s := newScene(t, g, "acme")
	p := g.SignIn(t, gatewaytest.AdminKey, "/console")
	for _, page := range s.pages() {
		t.Run(page.name, func(t *testing.T) { s.check(t, p, g.URL, page) })
	}
}

func (s *scene) check(t *testing.T, p *browsertest.Page, server string, page shown) {
	t.Helper()
	p.View(browsertest.Light)
	p.Open(server + page.path)
	p.WaitVisible("main h1")
	if title := p.Text("h1"); title == "Not found" || title == "Something failed" {
		t.Fatalf("the page has the heading %q", title)
	}
	isAttacked(t, p)
	if got := p.Transferred().Document; got > maxHTML {
		t.Errorf("compressed HTML, got %d bytes, want at most %d", got, maxHTML)
	}
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
	p.Screenshot(page.name)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must1[V any](v V, err error) V { return gatewaytest.Must(v, err) }

func ref[V any](v V) *V { return &v }
