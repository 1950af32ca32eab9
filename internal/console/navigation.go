package console

import "strings"

// group is a part of the navigation.
type group struct {
	Name  string // "" for the first
	Items []item
}

// item is an entry of the navigation. Key opens it after g.
type item struct {
	Name, Href, Key string
	IsCurrent       bool
}

// navigation returns the entries that the person may open.
func navigation(r *request, section string) []group {
	var groups []group
	if r.tenant != "" {
		groups = append(groups,
			group{Items: []item{{Name: "Overview", Href: "", Key: "o"}, {Name: "Events", Href: "/events", Key: "e"}}},
			group{Name: "Incoming", Items: []item{{Name: "Sources", Href: "/sources", Key: "s"}, {Name: "Work", Href: "/work", Key: "w"}, {Name: "Promises", Href: "/promises", Key: "p"}}},
			group{Name: "Outgoing", Items: []item{{Name: "Subscriptions", Href: "/subscriptions", Key: "u"}, {Name: "Deliveries", Href: "/deliveries", Key: "d"},
				{Name: "Dead letters", Href: "/deliveries/dead", Key: "l"}, {Name: "Event types", Href: "/types", Key: "t"}, {Name: "Agents", Href: "/agents", Key: "a"}}},
			group{Name: "Tenant", Items: []item{{Name: "Keys", Href: "/keys", Key: "k"}, {Name: "Audit", Href: "/audit", Key: "r"}}},
		)
		prefixItems(groups, r.base())
	}
	if r.isAdmin() {
		admin := []group{{Name: "Gateway", Items: []item{{Name: "All tenants", Href: ""}, {Name: "Tenants", Href: "/tenants", Key: "n"}, {Name: "System", Href: "/system", Key: "y"}, {Name: "Audit of all", Href: "/audit"}}}}
		prefixItems(admin, Root)
		groups = append(groups, admin...)
	}
	for _, g := range groups {
		for i := range g.Items {
			g.Items[i].IsCurrent = g.Items[i].Name == section
		}
	}
	return groups
}

func prefixItems(groups []group, prefix string) {
	for _, g := range groups {
		for i := range g.Items {
			g.Items[i].Href = prefix + g.Items[i].Href
		}
	}
}

// sections are the entries of the navigation by the beginning of a page's path, longest first.
var sections = []struct{ path, name string }{
	{"/console/t/{tenant}/deliveries/dead", "Dead letters"}, {"/console/t/{tenant}/subscriptions", "Subscriptions"},
	{"/console/t/{tenant}/deliveries", "Deliveries"}, {"/console/t/{tenant}/promises", "Promises"}, {"/console/t/{tenant}/sources", "Sources"},
	{"/console/t/{tenant}/events", "Events"}, {"/console/t/{tenant}/agents", "Agents"}, {"/console/t/{tenant}/types", "Event types"},
	{"/console/t/{tenant}/audit", "Audit"}, {"/console/t/{tenant}/work", "Work"}, {"/console/t/{tenant}/keys", "Keys"},
	{"/console/t/{tenant}/search", ""}, {"/console/t/{tenant}", "Overview"}, {"/console/tenants", "Tenants"}, {"/console/system", "System"},
	{"/console/audit", "Audit of all"}, {"/console/search", ""}, {"/console", "All tenants"},
}

// sectionOf returns the name of the navigation's entry to which a page belongs.
func sectionOf(p page) string {
	if p.section != "" {
		return p.section
	}
	_, path, _ := strings.Cut(p.pattern, " ")
	for _, s := range sections {
		if strings.HasPrefix(path, s.path) {
			return s.name
		}
	}
	return ""
}
