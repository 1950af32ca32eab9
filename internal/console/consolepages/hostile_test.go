package consolepages_test

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
	"github.com/eventhook/eventhook/internal/cli/send"
)

// Budgets of a page. maxHTML is in compressed bytes.
const (
	maxHTML  = 80 << 10
	maxShift = 0.1
)

// TestEveryPageIsSafe shows a tenant whose texts are hostile wherever a sender or a customer chooses
// them.
func TestEveryPageIsSafe(t *testing.T) {
	t.Parallel()
	visit(t, newHostile(t), func(t *testing.T, p *browsertest.Page, _ shown) {
		t.Helper()
		p.Unharmed()
		if got := p.Transferred().Document; got > maxHTML {
			t.Errorf("compressed HTML, got %d bytes, want at most %d", got, maxHTML)
		}
		p.View(browsertest.Phone)
		if wide := p.Overflow(); wide > 0 {
			t.Errorf("the page is %d pixels wider than a phone", wide)
		}
	})
}

// hostileBody is a payload that contains Attack as a name and as values.
var hostileBody = gatewaytest.Must(json.Marshal(map[string]any{"ref": browsertest.Attack,
	browsertest.Attack: map[string]any{"nested": []any{browsertest.Attack, 1, nil, true}}}))

func newHostile(t *testing.T) *scene {
	t.Helper()
	g := gatewaytest.Shared(t)
	n := g.Tenant(t, "hostile")
	s := &scene{gateway: g, slug: n.Slug, empty: "hostile-empty", key: n.Key, lookup: "git", eventType: "payment.made",
		source: gatewaytest.Source, waiting: gatewaytest.Source, refused: gatewaytest.Source}
	g.Tenant(t, "hostile-other") // a search in all tenants finds its source, too
	gatewaytest.Must(g.Admin.CreateTenant(t.Context(), client.TenantCreate{Slug: s.empty, Name: browsertest.Attack}))
	s.search = url.Values{"path": {"body.ref"}, "op": {"$eq"}, "value": {browsertest.Attack}}.Encode()
	s.receive(t, n)
	s.event = s.attack(t, n)
	s.configure(t, n)
	return s
}

// receive creates subscriptions whose receiver fails, one of them without retries.
func (s *scene) receive(t *testing.T, n *gatewaytest.Tenant) {
	t.Helper()
	r := gatewaytest.NewReceiver(t)
	r.AnswerText(500, browsertest.Attack)
	s.subscription = n.Subscribe("billing "+browsertest.Attack, r, "github.*").ID
	ctx := t.Context()
	s.failing = gatewaytest.Must(n.Client.CreateSubscription(ctx, n.Slug, client.SubscriptionCreate{Name: "dead " + browsertest.Attack, URL: r.URL,
		EventTypes: []string{"*"}, Retry: &client.DeliveryRetry{MaxRetries: new(int64(0))}})).ID
	task := client.Target{Type: client.TargetTypeTask, TaskKind: new(browsertest.Attack), Queue: new("ci")}
	s.route = gatewaytest.Must(n.Client.CreateRoute(ctx, n.Slug, gatewaytest.Source, client.RouteCreate{Name: "builds " + browsertest.Attack,
		FilterEventTypes: []string{"push"}, Targets: []client.Target{task}})).ID
	event := client.EventPublish{EventType: s.eventType, Data: hostileBody}
	gatewaytest.Must(n.Client.PublishEvent(ctx, n.Slug, client.PublishEventParams{}, event))
	r.Next()
	s.delivery = gatewaytest.Must(n.Client.ListDeliveries(ctx, n.Slug, client.ListDeliveriesParams{})).Items[0].ID
}

// attack sends a hostile push and one that is refused. It returns the id of the event.
func (s *scene) attack(t *testing.T, n *gatewaytest.Tenant) string {
	t.Helper()
	status, answer := n.Send(send.Sample{Provider: "github", Body: hostileBody}, gatewaytest.Secret)
	var accepted send.Answer
	if err := json.Unmarshal(answer, &accepted); status != 200 || err != nil {
		t.Fatalf("the push was answered %d %s", status, answer)
	}
	n.Send(send.Sample{Provider: "github", EventType: "x"}, "another secret")
	return accepted.EventID
}

func (s *scene) configure(t *testing.T, n *gatewaytest.Tenant) {
	t.Helper()
	ctx := t.Context()
	work := client.WorkStart{Type: "task", Kind: browsertest.Attack, Input: hostileBody}
	s.execution = gatewaytest.Must(n.Client.StartWork(ctx, n.Slug, client.StartWorkParams{}, work)).ID
	promise := client.CreatePromiseRequest{IdempotencyKey: browsertest.Attack}
	s.promise = gatewaytest.Must(n.Client.CreatePromise(ctx, n.Slug, promise)).ID
	s.agent = gatewaytest.Must(n.Client.CreateAgent(ctx, n.Slug, client.AgentCreate{Name: "edge", Labels: []string{"env:prod"}})).ID
	eventType := client.EventTypePut{Description: new(browsertest.Attack), Category: new("payments")}
	gatewaytest.Must(n.Client.PutEventType(ctx, n.Slug, s.eventType, client.PutEventTypeParams{}, eventType))
}
