package consolestories_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// failures is the number of dead deliveries in a row that disable the subscription.
const failures = 5

// platform is the team that runs the gateway. A receiver of a tenant fails.
type platform struct {
	*browsertest.Page
	t        *testing.T
	server   string
	receiver *gatewaytest.Receiver
	missed   []string // orders that the receiver has not got
}

// TestPlatformTeam closes an incident: it finds the failing subscription on the overview of all tenants,
// sees the cause and recovers the subscription. Everything that was missed arrives once, oldest first,
// and the overview becomes quiet.
func TestPlatformTeam(t *testing.T) {
	g := gatewaytest.Start(t) // the overview of a shared gateway shows the tenants of other tests
	n := g.Tenant(t, "platform")
	p := &platform{t: t, server: g.URL, receiver: gatewaytest.NewReceiver(t)}
	gatewaytest.Must(n.Client.CreateSubscription(t.Context(), n.Slug, client.SubscriptionCreate{Name: "billing", URL: p.receiver.URL, EventTypes: []string{"order.*"},
		MaxInFlight: new(int64(1)), Retry: &client.DeliveryRetry{MaxRetries: new(int64(0))}, DisableAfterFailures: new(int64(failures))}))
	p.receiver.AnswerText(500, "cannot reach the database "+browsertest.Attack)
	p.misses(n)
	p.Page = g.SignIn(t, gatewaytest.AdminKey, "/console")
	p.findsTheSubscription()
	p.seesTheCause()
	p.recovers()
	p.seesAQuietOverview()
}

// misses publishes orders, which the receiver answers with 500. The ids of events of one millisecond have
// another order than their requests.
func (p *platform) misses(n *gatewaytest.Tenant) {
	p.t.Helper()
	orders := map[string]string{} // by event id
	for i := range failures {
		order := fmt.Sprintf("A-%d", i)
		published := gatewaytest.Must(n.Client.PublishEvent(p.t.Context(), n.Slug, client.PublishEventParams{},
			client.EventPublish{EventType: "order.created", Data: fmt.Appendf(nil, `{"order":%q}`, order)}))
		orders[published.EventID] = order
	}
	for _, id := range slices.Sorted(maps.Keys(orders)) {
		p.missed = append(p.missed, orders[id])
		p.receiver.Next()
	}
}

func (p *platform) findsTheSubscription() {
	p.WaitText("main", "The subscription billing to 127.0.0.1 is disabled: 5 deliveries are missed.")
	p.WaitText("main .notice.failed", "500 Internal Server Error")
	p.Click("main .notice.failed .actions a") // Recover
	p.WaitText("h1", "billing")
}

func (p *platform) seesTheCause() {
	p.WaitText("#health", "5 deliveries were missed")
	p.WaitText("#health", "answered 500 Internal Server Error")
	p.Click("#health .strip a.failed")
	p.WaitText("#story .timeline pre", "cannot reach the database "+browsertest.Attack)
	p.Unharmed()
	p.Back()
	p.WaitText("h1", "billing")
}

func (p *platform) recovers() {
	p.ClickName("Recover")
	p.WaitText("#confirm[open]", "all 5 missed deliveries are sent")
	p.receiver.Answer(200)
	p.Click("[data-confirm-proceed]")
	p.WaitText(".notice.ok", "enabled")
	var got []string
	for len(got) < len(p.missed) {
		d := p.receiver.Next()
		i := slices.IndexFunc(p.missed, func(order string) bool { return strings.Contains(string(d.Body), `"`+order+`"`) })
		if d.Status == 200 {
			got = append(got, p.missed[i])
		}
	}
	if !slices.Equal(got, p.missed) || p.receiver.Unread() > 0 {
		p.t.Errorf("the receiver got %v and %d more, want %v", got, p.receiver.Unread(), p.missed)
	}
	p.WaitText("#health", "completed")
	p.WaitGone("#health .notice")
}

// seesAQuietOverview sees that nothing is left of the incident.
func (p *platform) seesAQuietOverview() {
	p.Open(p.server + "/console/t/platform")
	p.WaitText("main", "Nothing needs a person")
	p.ClickName("Dead letters")
	p.WaitText("main", "No dead letters")
}
