package console

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/eventhook/eventhook/client"
)

var tenantPages = []page{
	{pattern: "GET /console/tenants", template: "tenants", handle: (*Console).tenants},
	{pattern: "GET /console/new-tenant", needs: needsAdmin,
		template: "tenant_new", handle: (*Console).newTenant, section: "Tenants"},
	{pattern: "POST /console/new-tenant", needs: needsAdmin,
		template: "tenant_new", handle: (*Console).createTenant, section: "Tenants"},
	{pattern: "GET /console/tenants/{tenant}", template: "tenant", handle: (*Console).tenantSettings},
	{pattern: "POST /console/tenants/{tenant}", needs: needsAdmin, template: "tenant", handle: (*Console).updateTenant},
	{pattern: "POST /console/tenants/{tenant}/suspend", needs: needsAdmin, handle: (*Console).suspendTenant},
	{pattern: "POST /console/tenants/{tenant}/activate", needs: needsAdmin, handle: (*Console).activateTenant},
	{pattern: "POST /console/tenants/{tenant}/close", needs: needsAdmin,
		template: "tenant", handle: (*Console).closeTenant},
	{pattern: "POST /console/tenants/{tenant}/purge", needs: needsAdmin,
		template: "tenant", handle: (*Console).purgeTenant},
}

// The limits of a search by name: the tenants that are read, and the tenants that are shown.
const (
	maxTenantsRead  = 10000
	maxTenantsShown = 200
)

// tenantList is the data of the list of tenants.
type tenantList struct {
	Tenants []client.Tenant
	Filter  form
	Pager   pager
	Name    string // the filter
	IsCut   bool   // the search has found more, or has not read all tenants
}

func (c *Console) tenants(r *request) (view, error) {
	list := tenantList{Filter: form{Values: r.URL.Query()}, Name: strings.TrimSpace(r.URL.Query().Get("name"))}
	if list.Name != "" {
		return view{Title: "Tenants", Data: &list}, list.search(r)
	}
	cursor, limit := r.cursor()
	found, err := r.api.ListTenants(r.Context(), client.ListTenantsParams{Cursor: cursor, Limit: limit})
	list.Tenants, list.Pager = found.Items, r.pager(found.NextCursor)
	return view{Title: "Tenants", Data: &list}, err
}

// search finds tenants by a part of the name or the slug.
func (l *tenantList) search(r *request) error {
	const pageSize = 200
	limit, read, part := int64(pageSize), 0, strings.ToLower(l.Name)
	for t, err := range r.api.AllTenants(r.Context(), client.ListTenantsParams{Limit: &limit}) {
		if err != nil {
			return err
		}
		if read++; read > maxTenantsRead || len(l.Tenants) == maxTenantsShown {
			l.IsCut = true
			return nil
		}
		if strings.Contains(strings.ToLower(t.Name), part) || strings.Contains(t.Slug, part) {
			l.Tenants = append(l.Tenants, t)
		}
	}
	return nil
}

var tenantFields = []string{"slug", "name", "max_events_per_day", "max_storage_bytes"}

func (c *Console) newTenant(r *request) (view, error) {
	return view{Title: "Create a tenant", Data: r.formOf(nil, tenantFields...)}, nil
}

func (c *Console) createTenant(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	f := r.formOf(nil, tenantFields...)
	body := client.TenantCreate{Slug: f.Get("slug"), Name: f.Get("name"), MaxEventsPerDay: f.integer("max_events_per_day"), MaxStorageBytes: f.integer("max_storage_bytes")}
	if f.isReadable() {
		t, err := r.api.CreateTenant(r.detached(), body)
		if err == nil {
			return redirect(tenantBase(t.Slug), "The tenant is created. Create a key for its programs, and set up a source.")
		}
		if !f.refuse(err) {
			return view{}, err
		}
	}
	return view{Title: "Create a tenant", Data: f, Status: http.StatusUnprocessableEntity}, nil
}

func tenantPath(slug string) string { return Root + "/tenants/" + url.PathEscape(slug) }
