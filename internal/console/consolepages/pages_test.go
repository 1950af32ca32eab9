package consolepages_test

import "github.com/eventhook/eventhook/internal/browsertest"

func (s *scene) overviews(base string) []shown {
	return []shown{
		{name: "overview", path: base},
		{name: "overview-24h", path: base + "?window=24h"},
		{name: "all-tenants", path: "/console"},
		{name: "search", path: base + "/search?id=" + s.lookup},
		{name: "search-all", path: "/console/search?id=" + s.lookup},
	}
}

func (s *scene) events(base string) []shown {
	list, event := base+"/events", base+"/events/"+s.event
	return []shown{
		{name: "events", path: list},
		{name: "events-selected", path: list, steps: func(p *browsertest.Page) {
			p.Press("j", "x", "j", "x")
			p.WaitVisible("[data-bulk]")
		}},
		{name: "event", path: event},
		{name: "event-headers", path: event + "?payload=headers", hasNoImage: true},
		{name: "event-confirm", path: event, steps: func(p *browsertest.Page) {
			p.ClickName("Run again")
			p.WaitVisible("#confirm[open]")
		}},
		{name: "event-search", path: list + "/search"},
		{name: "event-search-results", path: list + "/search?" + s.search, steps: func(p *browsertest.Page) {
			p.WaitVisible("#results table")
		}},
		{name: "event-reprocess", path: list + "/reprocess?status=unrouted"},
	}
}

func (s *scene) work(base string) []shown {
	return []shown{
		{name: "work", path: base + "/work"},
		{name: "work-new", path: base + "/work/new"},
		{name: "execution", path: base + "/work/" + s.execution},
		{name: "promises", path: base + "/promises"},
		{name: "promise", path: base + "/promises/" + s.promise},
		{name: "promise-new", path: base + "/promises/new", hasNoImage: true},
	}
}

func (s *scene) agents(base string) []shown {
	agent := base + "/agents/" + s.agent
	return []shown{
		{name: "agents", path: base + "/agents"},
		{name: "agent", path: agent},
		{name: "agent-new", path: base + "/new-agent", hasNoImage: true},
		{name: "agent-key", path: agent, steps: func(p *browsertest.Page) {
			p.ClickName("Rotate the key")
			p.WaitVisible("#confirm[open]")
			p.Click("[data-confirm-proceed]")
			p.WaitVisible("#secret")
		}},
	}
}

func (s *scene) types(base string) []shown {
	named := base + "/types/" + s.eventType
	return []shown{
		{name: "types", path: base + "/types"},
		{name: "type", path: named},
		{name: "type-edit", path: named + "/edit", hasNoImage: true},
		{name: "type-new", path: base + "/new-type", hasNoImage: true},
	}
}

func (s *scene) keys(base string) []shown {
	return []shown{
		{name: "keys", path: base + "/keys"},
		{name: "key-new", path: base + "/keys/new", hasNoImage: true},
		{name: "key-created", path: base + "/keys/new", steps: func(p *browsertest.Page) {
			p.Fill("#f-name", "checkout service")
			p.Click(`input[value="publish"]`)
			p.ClickName("Create the key")
			p.WaitVisible("#secret")
		}},
	}
}

// gatewayPages lists the pages about tenants, the system and the audit log.
func (s *scene) gatewayPages(base string) []shown {
	return []shown{
		{name: "audit", path: base + "/audit"},
		{name: "audit-all", path: "/console/audit", hasNoImage: true},
		{name: "tenants", path: "/console/tenants"},
		{name: "tenant", path: "/console/tenants/" + s.slug},
		{name: "tenant-new", path: "/console/new-tenant", hasNoImage: true},
		{name: "system", path: "/console/system"},
	}
}

// missing is the id of no resource.
const missing = "00000000-0000-7000-8000-000000000000"

// states lists pages without permission, without a session and without a result.
func (s *scene) states(base string) []shown {
	return []shown{
		{name: "sign-in", path: "/console/sign-in", scopes: []string{}},
		{name: "link", path: "/console/link?code=x", scopes: []string{}},
		{name: "no-permission", path: base + "/events", template: "problem", scopes: []string{"publish"}},
		{name: "error", path: base + "/events/" + missing, template: "problem"},
		{name: "search-empty", path: base + "/search?id=" + missing, hasNoImage: true},
		{name: "keyboard", path: base + "/events", steps: func(p *browsertest.Page) {
			p.Press("?")
			p.WaitVisible("#keys[open]")
		}},
	}
}

// emptyPages lists the pages of a tenant without resources.
func emptyPages(base string) []shown {
	list := []shown{
		{name: "empty-overview", path: base},
		{name: "empty-events", path: base + "/events"},
		{name: "empty-sources", path: base + "/sources"},
		{name: "empty-subscriptions", path: base + "/subscriptions"},
		{name: "empty-dead-letters", path: base + "/deliveries/dead"},
	}
	for _, name := range []string{"work", "promises", "deliveries", "agents", "types", "keys", "audit"} {
		list = append(list, shown{name: "empty-" + name, path: base + "/" + name, hasNoImage: true})
	}
	return list
}
