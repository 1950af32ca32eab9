package consolepages_test

import (
	"testing"

	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// scene is a tenant with a resource of each kind.
type scene struct {
	gateway *gatewaytest.Gateway
	slug    string // of the tenant
	empty   string // slug of a tenant without resources
	key     func(scopes ...string) string

	source, waiting, refused string // slugs of sources: one with routes, one without events, one with refused requests
	search                   string // the query of a payload search that finds events
	event, delivery, route   string
	execution, promise       string
	subscription, failing    string
	agent, eventType, lookup string // lookup is the beginning of several names
}

// shown is a page with the name of its screenshot.
type shown struct {
	name, path string
	// template is the page's, if its pattern has another one.
	template string
	// hasNoImage is true for a page that looks like another one.
	hasNoImage bool
	// steps bring the page into its state.
	steps func(*browsertest.Page)
	// scopes are the scopes of the person's key; nil for the admin key, empty for no key.
	scopes []string
}

// browser returns the page of the person who opens a page, signed in.
func (s *scene) browser(t *testing.T, admin *browsertest.Page, page shown) *browsertest.Page {
	t.Helper()
	switch {
	case page.scopes == nil:
		return admin
	case len(page.scopes) == 0:
		return browsertest.New(t)
	}
	return s.gateway.SignIn(t, s.key(page.scopes...), "/console")
}

// open opens a page and brings it into its state.
func (s *scene) open(t *testing.T, p *browsertest.Page, page shown) {
	t.Helper()
	if page.name == "no-permission" {
		p.Allow("403")
	}
	p.View(browsertest.Light)
	p.Open(s.gateway.URL + page.path)
	p.WaitVisible("main h1")
	title := p.Text("h1")
	if page.template != "problem" && (title == "Not found" || title == "Something failed") {
		t.Fatalf("the page has the heading %q: %s", title, p.Text("main"))
	}
	if page.steps != nil {
		page.steps(p)
	}
}

// pages lists every page of the console.
func (s *scene) pages() []shown {
	base := "/console/t/" + s.slug
	var all []shown
	for _, list := range [][]shown{
		s.overviews(base), s.events(base), s.sources(base + "/sources"), s.routes(base + "/sources/" + s.source + "/routes"),
		s.work(base), s.subscriptions(base + "/subscriptions"), s.deliveries(base + "/deliveries"),
		s.agents(base), s.types(base), s.keys(base), s.gatewayPages(base), s.states(base), emptyPages("/console/t/" + s.empty),
	} {
		all = append(all, list...)
	}
	return all
}
