package portalstories_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

func TestLinkOpensThePortalUntilItExpires(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Shared(t)
	n := g.Tenant(t, "links")
	link := n.PortalLink(globex, false)
	first, second := browsertest.New(t), browsertest.New(t)
	first.Open(link)
	first.WaitText("h1", "Endpoints")
	second.Open(link) // a link can be opened several times
	second.WaitText("h1", "Endpoints")
	first.ClickName("Sign out")
	first.WaitText("main", "open the link again before it expires")
	second.Reload()
	second.WaitText("h1", "Endpoints") // which is another session
	first.Allow("401 (Unauthorized)")
	first.Open(g.URL + "/portal/types")
	first.WaitText("h1", "You need a new link")
	first.WaitText("main", "Open the portal again from the application that sent you here, or ask for a new link.")
	first.Open(link)
	first.WaitText("h1", "Endpoints")
	first.Open(n.ExpiredPortalLink(globex))
	first.WaitText("h1", "You need a new link")
	first.WaitText("main", "This link has expired. Ask for a new link.")
	first.Open(link + "x")
	first.WaitText("main", "This link is not valid. Check that you copied all of it, or ask for a new link.")
}

func TestExpiredSessionTellsToAskForALink(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Shared(t)
	a := newAccount(t, g, "expiry")
	p := browsertest.New(t)
	p.Allow("401 (Unauthorized)")
	p.Open(a.PortalLink(globex, false))
	p.Open(g.URL + "/portal/endpoints/" + a.own.endpoint)
	before := stateOf(t, a.Tenant)
	a.ExpirePortalSessions(globex)
	p.ClickName("Pause")
	gatewaytest.Confirm(p, "Pause this endpoint?")
	p.WaitText("h1", "You need a new link")
	p.WaitText("main", "your link has expired")
	if n := p.Count("nav, footer, form:not([method=dialog])"); n > 0 {
		t.Error("the page shows the portal after the end of the session")
	}
	isUnchanged(t, a.Tenant, before)
}

func TestPageThatRefreshesTellsTheEndOfItsSession(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Shared(t)
	n := g.Tenant(t, "refresh")
	asked, answers := make(chan bool, 1), make(chan bool)
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- true; <-answers }))
	t.Cleanup(slow.Close)
	t.Cleanup(func() { close(answers) })
	endpoint := gatewaytest.Must(n.Client.CreateSubscription(t.Context(), n.Slug, client.SubscriptionCreate{
		Name: "Slow", URL: slow.URL, EventTypes: []string{"invoice.paid"}, ScopeFilter: []string{globex}}))
	publish(t, n, globex, "invoice.paid", invoice(1))
	<-asked
	p := browsertest.New(t)
	p.Allow("401 (Unauthorized)")
	p.Open(n.PortalLink(globex, false))
	p.Open(g.URL + "/portal/endpoints/" + endpoint.ID)
	p.WaitText("#delivery-rows", "sending")
	n.ExpirePortalSessions(globex)
	p.WaitText("h1", "You need a new link")
}

func TestLinkOfAnotherCustomerReplacesTheSession(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Shared(t)
	a := newAccount(t, g, "switch")
	p := browsertest.New(t)
	p.Open(a.PortalLink(globex, false))
	p.WaitText("header", globex)
	p.WaitText("main", "Own")
	p.Open(a.PortalLink("initech", false))
	p.WaitText("header", "initech")
	p.WaitText("main", secretName+" 1")
	p.Allow("404 (Not Found)")
	p.Open(g.URL + "/portal/endpoints/" + a.own.endpoint)
	p.WaitText("h1", "Not found")
}
