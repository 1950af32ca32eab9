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
	// Customer restricts the grant to the subscriptions and deliveries of a customer; nil: no
	// restriction.
	Customer *Customer `json:"customer,omitempty"`
}

// PortalLink is the noun of the ids of links to the portal.
type PortalLink struct{}

// Customer is a tenant's customer with a link to the portal.
type Customer struct {
	// Scope is that of the customer. The customer sees the subscriptions that are visible to it,
	// and their deliveries of events of the scope: see SubscriptionSettings.IsVisibleTo and InScope.
	Scope string `json:"scope"`
	// LinkID is the id of the link.
	LinkID PortalLinkID `json:"link_id"`
	// MaxEndpoints is how many subscriptions the scope may have for the customer to create
	// another one.
	MaxEndpoints int `json:"max_endpoints"`
}

// DefaultMaxEndpoints and MaxEndpointsLimit are the default and the maximum of Customer.MaxEndpoints.
const (
	DefaultMaxEndpoints = 20
	MaxEndpointsLimit   = 1000
)

// MayAdminister reports whether the grant permits an operation as an admin.
func (g Grant) MayAdminister(isRead bool) bool {
	return g.AdminReadOnly && isRead || g.Admin && !g.AdminReadOnly
}

// Has reports whether the grant has a scope for a tenant. It does not consider the
// permissions of an admin.
func (g Grant) Has(tenant string, scope Scope) bool { return slices.Contains(g.Tenants[tenant], scope) }
