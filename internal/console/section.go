package console

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/eventhook/eventhook/internal/session"
	"github.com/eventhook/eventhook/internal/web"
)

// tenantCookie has the tenant that an admin chose last.
const tenantCookie = "eventhook_tenant"

// tenantSections are the pages that a tenant has.
var tenantSections = []string{"events", "sources", "work", "promises", "subscriptions", "deliveries", "agents", "types", "keys", "audit", "search"}

// serveSection redirects /console/events to the events of the person's tenant, and so on. Other
// paths are not found.
func (c *Console) serveSection(w http.ResponseWriter, r *http.Request) {
	c.handler(page{handle: (*Console).section}).ServeHTTP(w, r)
}

func (c *Console) section(r *request) (view, error) {
	path := r.PathValue("section")
	first, _, _ := strings.Cut(path, "/")
	tenant := r.lastTenant()
	for _, s := range tenantSections {
		switch {
		case s != first || !web.IsClean("/"+path):
		case tenant != "":
			return redirect(withQuery(tenantBase(tenant)+(&url.URL{Path: "/" + path}).EscapedPath(), r.URL), "")
		default:
			return redirect(Root+"/tenants", "Choose a tenant first.")
		}
	}
	return view{Title: "Not found", Page: "problem", Status: http.StatusNotFound, Data: problemPage{Title: "Not found", Status: http.StatusNotFound,
		Detail: "No page of the console has this address. Choose one from the menu, or search for an id."}}, nil
}

func withQuery(path string, from *url.URL) string {
	if from.RawQuery == "" {
		return path
	}
	return path + "?" + from.RawQuery
}

// lastTenant returns the tenant of the person's key, or the one that an admin chose last; "" if
// there is none.
func (r *request) lastTenant() string {
	if r.identity.Tenant != nil {
		return r.identity.Tenant.Slug
	}
	if len(r.identity.Tenants) == 1 {
		return r.identity.Tenants[0].Slug
	}
	return r.jar.Get(r.Request, tenantCookie)
}

// rememberTenant stores the tenant of a page that an admin has opened as the one chosen last.
func (c *Console) rememberTenant(w http.ResponseWriter, r *request) {
	if r.tenant == "" || !r.isAdmin() || r.Method != http.MethodGet || c.Jar.Get(r.Request, tenantCookie) == r.tenant {
		return
	}
	const seconds = 365 * 24 * 3600
	c.Jar.Set(w, r.Request, session.Cookie{Name: tenantCookie, Value: r.tenant, Path: Root, MaxAge: seconds, SameSite: http.SameSiteLaxMode})
}
