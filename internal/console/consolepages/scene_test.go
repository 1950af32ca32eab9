package consolepages_test

import (
	"net/url"
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
	// scopes are those of the key of the person; nil for the admin key, empty for no key.
	scopes []string
}

// pages lists every page of the console.
func (s *scene) pages() []shown {
	base := "/console/t/" + s.slug
	var all []shown
	for _, list := range [][]shown{s.overviews(), s.events(base), s.sources(base + "/sources"), s.routes(base + "/sources/" + s.source + "/routes"),
		s.work(base), s.subscriptions(base + "/subscriptions"), s.deliveries(base + "/deliveries"), s.settings(base), s.states(base)} {
		all = append(all, list...)
	}
	return all
}

func (s *scene) overviews() []shown {
	base := "/console/t/" + s.slug
	return []shown{
		{name: "overview", path: base}, {name: "overview-24h", path: base + "?window=24h"}, {name: "all-tenants", path: "/console"},
		{name: "search", path: base + "/search?id=" + s.lookup}, {name: "search-all", path: "/console/search?id=" + s.lookup},
	}
}

func (s *scene) events(base string) []shown {
	selected := func(p *browsertest.Page) { p.Press("j", "x", "j", "x"); p.WaitVisible("[data-bulk]") }
	confirmed := func(p *browsertest.Page) { p.ClickOn("Run again"); p.WaitVisible("#confirm[open]") }
	return []shown{
		{name: "events", path: base + "/events"}, {name: "events-selected", path: base + "/events", steps: selected},
		{name: "event", path: base + "/events/" + s.event}, {name: "event-headers", hasNoImage: true, path: base + "/events/" + s.event + "?payload=headers"},
		{name: "event-confirm", path: base + "/events/" + s.event, steps: confirmed},
		{name: "event-search", path: base + "/events/search"},
		{name: "event-search-results", path: base + "/events/search?" + s.search, steps: func(p *browsertest.Page) { p.WaitVisible("#results table") }},
		{name: "event-reprocess", path: base + "/events/reprocess?status=unrouted"},
	}
}

func (s *scene) sources(at string) []shown {
	source := at + "/" + s.source
	generate := func(p *browsertest.Page) {
		p.Fill("#f-slug", "releases")
		p.ClickOn("Generate the secret and create")
		p.WaitVisible("#secret")
	}
	tried := func(p *browsertest.Page) {
		p.Fill("#f-body", `{"type": "payment_intent.succeeded", "livemode": false, "data": {"object": {"id": "pi_1", "amount": 4200, "currency": "eur"}}}`)
		p.Click("main form.card button.primary")
		p.WaitText("main section .card h2", "would be")
	}
	return []shown{
		{name: "sources", path: at}, {name: "source-choose", path: at + "/new"}, {name: "source-new", path: at + "/new?provider=github", template: "source_new"},
		{name: "source-secret", path: at + "/new?provider=github", template: "source_secret", steps: generate},
		{name: "source", path: source}, {name: "source-waiting", path: at + "/" + s.waiting + "/waiting"}, {name: "source-refused", path: at + "/" + s.refused + "/rejections"},
		{name: "source-test-form", hasNoImage: true, path: source + "/test"}, {name: "source-test", path: source + "/test", steps: tried}, {name: "source-settings", path: source + "/settings"},
	}
}

func (s *scene) routes(at string) []shown {
	backtested := func(p *browsertest.Page) {
		p.ClickOn("Backtest the last 1 000 events")
		p.WaitText("#backtest", "Would have matched")
	}
	changed := func(p *browsertest.Page) {
		p.Fill("#f-priority", "20")
		p.ClickOn("Review changes")
		p.WaitText("h1", "Changes of")
	}
	return []shown{
		{name: "routes", path: at}, {name: "route", path: at + "/" + s.route, steps: backtested}, {name: "route-new", path: at + "/new"},
		{name: "route-changes", path: at + "/" + s.route, steps: changed},
	}
}

func (s *scene) work(base string) []shown {
	return []shown{
		{name: "work", path: base + "/work"}, {name: "work-new", path: base + "/work/new"}, {name: "execution", path: base + "/work/" + s.execution},
		{name: "promises", path: base + "/promises"}, {name: "promise", path: base + "/promises/" + s.promise}, {name: "promise-new", hasNoImage: true, path: base + "/promises/new"},
	}
}

func (s *scene) subscriptions(at string) []shown {
	estimated := func(p *browsertest.Page) { p.ClickOn("Estimate…"); p.WaitText("main .card h2", "Replay") }
	bulk := func(p *browsertest.Page) {
		p.ClickOn("Change all that match")
		p.ClickOn("Pause…")
		p.WaitText("h1", "Pause subscriptions")
	}
	return []shown{
		{name: "subscriptions", path: at}, {name: "subscription", path: at + "/" + s.subscription}, {name: "subscription-failing", path: at + "/" + s.failing},
		{name: "subscription-new", path: at + "/new"}, {name: "subscription-edit", path: at + "/" + s.subscription + "/edit"},
		{name: "replay", path: at + "/" + s.failing + "/replay"}, {name: "replay-estimate", path: at + "/" + s.failing + "/replay", steps: estimated},
		{name: "subscriptions-pause", path: at, steps: bulk},
	}
}

func (s *scene) deliveries(at string) []shown {
	counted := func(p *browsertest.Page) {
		p.Click(`form[action$="/deliveries/retry"] button`)
		p.WaitText("main .card h2", "Retry")
	}
	return []shown{
		{name: "deliveries", path: at}, {name: "delivery", path: at + "/" + s.delivery}, {name: "dead-letters", path: at + "/dead"},
		{name: "dead-letters-retry", path: at + "/dead", steps: counted},
	}
}

func (s *scene) settings(base string) []shown {
	rotated := func(p *browsertest.Page) {
		p.ClickOn("Rotate the key")
		p.WaitVisible("#confirm[open]")
		p.Click("[data-confirm-proceed]")
		p.WaitVisible("#secret")
	}
	created := func(p *browsertest.Page) {
		p.Fill("#f-name", "checkout service")
		p.Click(`input[value="publish"]`)
		p.ClickOn("Create the key")
		p.WaitVisible("#secret")
	}
	types := base + "/types"
	return []shown{
		{name: "agents", path: base + "/agents"}, {name: "agent", path: base + "/agents/" + s.agent}, {name: "agent-new", hasNoImage: true, path: base + "/new-agent"},
		{name: "agent-key", path: base + "/agents/" + s.agent, steps: rotated},
		{name: "types", path: types}, {name: "type", path: types + "/" + s.eventType}, {name: "type-edit", hasNoImage: true, path: types + "/" + s.eventType + "/edit"},
		{name: "type-new", hasNoImage: true, path: base + "/new-type"}, {name: "keys", path: base + "/keys"}, {name: "key-new", hasNoImage: true, path: base + "/keys/new"},
		{name: "key-created", path: base + "/keys/new", steps: created},
		{name: "audit", path: base + "/audit"}, {name: "audit-all", hasNoImage: true, path: "/console/audit"}, {name: "tenants", path: "/console/tenants"},
		{name: "tenant", path: "/console/tenants/" + s.slug}, {name: "tenant-new", hasNoImage: true, path: "/console/new-tenant"}, {name: "system", path: "/console/system"},
	}
}

// missing is the id of no resource.
const missing = "00000000-0000-7000-8000-000000000000"

// states lists pages in states that they have without data, without permission or without a session.
func (s *scene) states(base string) []shown {
	empty := "/console/t/" + url.PathEscape(s.empty)
	return []shown{
		{name: "sign-in", path: "/console/sign-in", scopes: []string{}},
		{name: "no-permission", path: base + "/events", template: "problem", scopes: []string{"publish"}},
		{name: "error", path: base + "/events/" + missing, template: "problem"},
		{name: "search-empty", hasNoImage: true, path: base + "/search?id=" + missing},
		{name: "keyboard", path: base + "/events", steps: func(p *browsertest.Page) { p.Press("?"); p.WaitVisible("#keys[open]") }},
		{name: "empty-overview", path: empty}, {name: "empty-events", path: empty + "/events"}, {name: "empty-sources", path: empty + "/sources"},
		{name: "empty-work", hasNoImage: true, path: empty + "/work"}, {name: "empty-promises", hasNoImage: true, path: empty + "/promises"},
		{name: "empty-subscriptions", path: empty + "/subscriptions"}, {name: "empty-deliveries", hasNoImage: true, path: empty + "/deliveries"},
		{name: "empty-dead-letters", path: empty + "/deliveries/dead"}, {name: "empty-agents", hasNoImage: true, path: empty + "/agents"},
		{name: "empty-types", hasNoImage: true, path: empty + "/types"}, {name: "empty-keys", hasNoImage: true, path: empty + "/keys"}, {name: "empty-audit", hasNoImage: true, path: empty + "/audit"},
	}
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
