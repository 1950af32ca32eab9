package console

var overviewPages = []page{
	{pattern: "GET /console", template: "overview_all", handle: (*Console).overviewAll},
	{pattern: "GET /console/t/{tenant}", template: "overview", handle: (*Console).overview, isLive: true},
}

// overviewAll shows all tenants to an admin. A key of one tenant is sent to that tenant's overview.
func (c *Console) overviewAll(r *request) (view, error) {
	if r.isAdmin() {
		return view{Title: "All tenants"}, nil
	}
	return redirect(tenantBase(r.lastTenant()), "")
}

func (c *Console) overview(*request) (view, error) {
	return view{Title: "Overview"}, nil
}
