package api

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/portallink"
)

// PortalLinkStore records links to the portal.
type PortalLinkStore interface {
	// RecordPortalLink writes the audit entry of a new link. It fails as a change of the
	// tenant does.
	RecordPortalLink(ctx context.Context, by eventhook.Actor, l portallink.Link) error
}

// PortalLinkCreate describes a link to the portal.
type PortalLinkCreate struct {
	Scope            string `json:"scope" example:"customer-42" doc:"The customer's scope. The link shows the subscriptions all of whose scope_filter patterns are this scope or begin with it and a slash."`
	ExpiresInSeconds *int   `json:"expires_in_seconds,omitempty" nullable:"true" minimum:"60" maximum:"2592000" doc:"Lifetime of the link; default 3600."`
	ReadOnly         bool   `json:"read_only,omitempty" doc:"Whether the customer can change nothing."`
	MaxEndpoints     *int   `json:"max_endpoints,omitempty" nullable:"true" minimum:"1" maximum:"1000" doc:"How many subscriptions the scope may have for the customer to add another one; default 20. Subscriptions that you create count, and are not limited."`
}

// PortalLink is a link to the portal.
type PortalLink struct {
	URL       string    `json:"url" doc:"The link. It signs in its holder, until it expires: treat it as a secret."`
	ExpiresAt time.Time `json:"expires_at"`
}

func (s *server) registerPortalLinks(api huma.API) {
	register(s, api, operation{id: "create-portal-link", method: http.MethodPost, path: base + "/portal-links", scope: eventhook.ScopeManage,
		tag: "subscriptions", skipsShape: true, status: http.StatusCreated, summary: "Create a link to the customer portal",
		about: "The link lets a tenant's customer manage the subscriptions of one scope, and nothing else. " +
			"It shows deliveries whose event has this scope or one below it, " +
			"also of a subscription whose scope_filter was another one before. " +
			"It can be opened several times until it expires, and cannot be revoked, except by closing the tenant. " +
			"Its newest 20 sessions are valid."}, s.createPortalLink)
}

type portalLinkRequest struct {
	TenantPath
	Body document[PortalLinkCreate]
}

type portalLinkAnswer struct {
	CacheControl string `header:"Cache-Control"`
	Body         PortalLink
}

func (s *server) createPortalLink(ctx context.Context, by caller, in *portalLinkRequest) (*portalLinkAnswer, error) {
	const defaultSeconds = 3600
	body, shape := in.Body.read(s)
	var rules eventhook.Faults
	if wrong := eventhook.CheckScope(body.Scope); wrong != "" {
		rules.Add("body.scope", "%s", wrong)
	}
	if err := combinedError(shape, rules); err != nil {
		return nil, err
	}
	if s.PublicURL == "" || len(s.PortalKey) == 0 {
		return nil, errNoPublicURL
	}
	lifetime := time.Duration(valueOr(body.ExpiresInSeconds, defaultSeconds)) * time.Second
	l := portallink.New(by.tenant, body.Scope, s.Now(), lifetime)
	l.IsReadOnly, l.MaxEndpoints = body.ReadOnly, valueOr(body.MaxEndpoints, l.MaxEndpoints)
	if err := s.PortalLinks.RecordPortalLink(ctx, by.actor(), l); err != nil {
		return nil, err
	}
	link := strings.TrimRight(s.PublicURL, "/") + "/portal/enter?code=" + url.QueryEscape(l.Sign(s.PortalKey))
	return &portalLinkAnswer{"no-store", PortalLink{link, utc(l.ExpiresAt)}}, nil
}

var errNoPublicURL = &eventhook.Error{Kind: eventhook.KindConflict,
	Message: "Links need the public URL of the gateway. Set EVENTHOOK_PUBLIC_URL."}
