package eventhook

import "slices"

// Grant is the permissions of a person who has signed in without an API key: with OpenID
// Connect, or with a link to the portal. The Grant of a link lasts as long as the session. The
// console computes that of OpenID Connect for each request, from the configuration.
type Grant struct {
	// Name identifies the person in the audit log. Persons with different names have
	// different request budgets.
	Name string `json:"name"`
	// Admin has the permissions of the admin key, unless AdminReadOnly is set as well.
	Admin bool `json:"admin,omitempty"`
	// AdminReadOnly has the permissions of the admin read key, and the scopes in Tenants
	// besides.
	AdminReadOnly bool `json:"admin_read_only,omitempty"`
	// Tenants has the scopes by the slug of the tenant. A slug is never used for another
	// tenant.
	Tenants map[string][]Scope `json:"tenants,omitempty"`
}

// MayAdminister reports whether the grant permits an operation as an admin.
func (g Grant) MayAdminister(isRead bool) bool {
	return g.AdminReadOnly && isRead || g.Admin && !g.AdminReadOnly
}

// Has reports whether the grant has a scope for a tenant. It does not consider the
// permissions of an admin.
func (g Grant) Has(tenant string, scope Scope) bool { return slices.Contains(g.Tenants[tenant], scope) }
