package gatewaytest

import (
	"net/url"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/portallink"
	"github.com/eventhook/eventhook/internal/seal"
)

// PortalLink creates a link to the portal for the customer of a scope, which is valid for an hour.
func (n *Tenant) PortalLink(scope string, isReadOnly bool) string {
	n.t.Helper()
	link, err := n.Client.CreatePortalLink(n.t.Context(), n.Slug, client.PortalLinkCreate{Scope: scope, ReadOnly: &isReadOnly})
	if err != nil {
		n.t.Fatal(err)
	}
	return link.URL
}

// ExpiredPortalLink returns a link to the portal that was valid for an hour and has expired.
func (n *Tenant) ExpiredPortalLink(scope string) string {
	n.t.Helper()
	tenant, err := n.Client.GetTenant(n.t.Context(), n.Slug)
	if err != nil {
		n.t.Fatal(err)
	}
	keys, err := seal.New(n.gateway.keys)
	if err != nil {
		n.t.Fatal(err)
	}
	link := portallink.New(eventhook.TenantID(parseID(n.t, tenant.ID)), scope, time.Now().Add(-2*time.Hour), time.Hour)
	return n.gateway.URL + "/portal/enter?code=" + url.QueryEscape(link.Sign(keys.Derive("portal-links")))
}

// ExpirePortalSessions has every session of the customer of a scope expire now.
func (n *Tenant) ExpirePortalSessions(scope string) {
	n.t.Helper()
	n.exec(n.connect(), `UPDATE eventhook.web_session SET expires_at = now()
WHERE kind = 'portal' AND data->>'tenant_slug' = $1 AND data->>'scope' = $2`, scope)
}
