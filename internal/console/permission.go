package console

import (
	"net/http"
	"slices"
	"strings"

	"github.com/eventhook/eventhook/client"
)

// scopes returns the scopes of the person on the tenant of the page, without the permissions of an
// admin. isKnown is false if the person has none at all there.
func (r *request) scopes() (scopes []string, isKnown bool) {
	if own := r.identity.Tenant; own != nil && own.Slug == r.tenant {
		return r.identity.Scopes, true
	}
	for _, t := range r.identity.Tenants {
		if t.Slug == r.tenant {
			return t.Scopes, len(t.Scopes) > 0
		}
	}
	return nil, false
}

// can reports whether the person may use a scope on the tenant of the page, or, for needsAdmin,
// whether the person is an admin. The API decides about each call; can only hides what it would refuse.
func (r *request) can(scope string) bool {
	if r.identity.Type == "admin" || r.identity.Type == "admin_read" && scope == "read" {
		return true
	}
	scopes, _ := r.scopes()
	return slices.Contains(scopes, scope)
}

// refusal returns why the person may not open a page, or nil. The error is a *client.Problem as the
// API has it: 404 for a tenant that is unknown to the person, whether it exists or not, and 403 for
// what the page needs.
func (r *request) refusal(p page) error {
	if err := r.findTenant(p); err != nil {
		return err
	}
	scopes := p.scopes()
	switch {
	case p.needs == "" && (r.tenant == "" || r.isAdmin()), slices.ContainsFunc(scopes, r.can):
		return nil
	case p.needs == needsAdmin:
		return &client.Problem{Status: http.StatusForbidden, Detail: "You lack the permissions of the admin key"}
	}
	return &client.Problem{Status: http.StatusForbidden,
		Detail: "You lack the scope " + strings.Join(scopes, " or ") + " for the tenant " + r.tenant}
}

// findTenant returns why the tenant of a page cannot be shown to the person, or nil. It asks the API
// about the tenant of an admin's form, since some forms call the API only when they are sent.
func (r *request) findTenant(p page) error {
	if r.tenant == "" {
		return nil
	}
	if r.isAdmin() {
		if p.needs == "" || r.Method != http.MethodGet {
			return nil
		}
		_, err := r.api.GetTenant(r.Context(), r.tenant)
		return err
	}
	if _, isKnown := r.scopes(); !isKnown {
		return &client.Problem{Status: http.StatusNotFound, Detail: "no such tenant"}
	}
	return nil
}
