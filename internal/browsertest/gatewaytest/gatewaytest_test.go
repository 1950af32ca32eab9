package gatewaytest

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/cli/send"
)

func TestMain(m *testing.M) { Main(m) }

func TestAPushReachesAReceiverWhoseAnswersChange(t *testing.T) {
	t.Parallel()
	n := Shared(t).Tenant(t, "pushing")
	r := NewReceiver(t)
	n.Subscribe("billing", r, "github.push")
	n.Push("first")
	if d := r.Next(); d.Status != http.StatusOK || !strings.Contains(string(d.Body), "github.push") {
		t.Errorf("got %d and the delivery %s, want 200 and a push", d.Status, d.Body)
	}
	r.Answer(http.StatusInternalServerError)
	n.Push("second")
	if d := r.Next(); d.Status != http.StatusInternalServerError {
		t.Errorf("the second delivery was answered %d, want 500", d.Status)
	}
	if status, body := n.Send(send.Sample{Provider: "github"}, "another-secret"); status != http.StatusUnauthorized {
		t.Errorf("another secret: got %d %s, want 401", status, body)
	}
}

func TestKeysHaveTheirScopes(t *testing.T) {
	t.Parallel()
	g := Shared(t)
	n := g.Tenant(t, "keys")
	reader := g.Client(t, n.Key("read"))
	if _, err := reader.ListEvents(t.Context(), n.Slug, client.ListEventsParams{}); err != nil {
		t.Errorf("the key cannot read: %v", err)
	}
	if _, err := reader.CreateSource(t.Context(), n.Slug, client.SourceCreate{Slug: "more"}); err == nil {
		t.Error("the key for reading created a source")
	}
}

func TestTestsShareOneGateway(t *testing.T) {
	t.Parallel()
	if one, two := Shared(t), Shared(t); one != two {
		t.Errorf("got the gateways %s and %s, want one", one.URL, two.URL)
	}
}

func TestSeededEventsAreListed(t *testing.T) {
	t.Parallel()
	const events = 1000
	n := Shared(t).Tenant(t, "seeded")
	n.SeedEvents(events)
	s := n.Subscribe("archive", NewReceiver(t))
	n.SeedDeliveries(s.ID, events)
	page, err := n.Client.ListEvents(t.Context(), n.Slug, client.ListEventsParams{})
	if err != nil || len(page.Items) == 0 || page.NextCursor == nil {
		t.Errorf("got %d events, %v; want a page with a cursor", len(page.Items), err)
	}
	deliveries, err := n.Client.ListDeliveries(t.Context(), n.Slug, client.ListDeliveriesParams{})
	if err != nil || len(deliveries.Items) == 0 || deliveries.NextCursor == nil {
		t.Errorf("got %d deliveries, %v; want a page with a cursor", len(deliveries.Items), err)
	}
}

func TestAKilledGatewayRestartsAtItsURL(t *testing.T) {
	t.Parallel()
	g := Start(t)
	url := g.URL
	n := g.Tenant(t, "acme")
	event := n.Push("")
	g.Kill()
	if _, err := g.Admin.GetEvent(t.Context(), n.Slug, event, client.GetEventParams{}); err == nil {
		t.Error("a killed gateway answered")
	}
	g.Restart()
	if _, err := g.Admin.GetEvent(t.Context(), n.Slug, event, client.GetEventParams{}); err != nil || g.URL != url {
		t.Errorf("got %v at %s, want the event at %s", err, g.URL, url)
	}
	if !strings.Contains(g.Log(), "serving") {
		t.Errorf("got the log %q", g.Log())
	}
}

// The reference of the API is a page that the gateway serves itself.
func TestTheBrowserReachesTheGateway(t *testing.T) {
	t.Parallel()
	p := browsertest.New(t)
	p.Open(Shared(t).URL + "/docs")
	p.WaitFor(`document.title !== ""`)
}

// TestAMillionEvents shows how long seeding takes.
func TestAMillionEvents(t *testing.T) {
	if os.Getenv("EVENTHOOK_TEST_LARGE") == "" {
		t.Skip("set EVENTHOOK_TEST_LARGE to seed a million events")
	}
	Shared(t).Tenant(t, "large").SeedEvents(1_000_000)
}
