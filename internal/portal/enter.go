package portal

import (
	"context"
	"errors"
	"net/http"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/portallink"
	"github.com/eventhook/eventhook/internal/session"
)

// The reasons why a link does not start a session.
var (
	errLink = &client.Problem{Status: http.StatusUnauthorized,
		Detail: "This link is not valid. Check that you copied all of it, or ask for a new link."}
	errExpired = &client.Problem{Status: http.StatusUnauthorized,
		Detail: "This link has expired. Ask for a new link."}
	errCookies = &client.Problem{Status: http.StatusUnauthorized,
		Detail: "Your browser did not keep the cookie of this portal. Permit cookies for this site, " +
			"open the link in a window of its own, and use https."}
)

// enter starts a session with the signed link of a tenant.
func (p *Portal) enter(w http.ResponseWriter, r *http.Request) {
	s, err := p.open(r)
	if err == nil {
		_, err = p.Sessions.Start(context.WithoutCancel(r.Context()), w, r, s)
	}
	if err != nil {
		p.fail(w, &request{Request: r}, err)
		return
	}
	http.Redirect(w, r, Root+"/entered", http.StatusSeeOther)
}

// entered shows the portal to a browser that kept the cookie, and a page that explains it to another.
func (p *Portal) entered(w http.ResponseWriter, r *http.Request) {
	_, _, err := p.session(w, r)
	if errors.Is(err, errNoSession) {
		err = errCookies
	}
	if err != nil {
		p.fail(w, &request{Request: r}, err)
		return
	}
	http.Redirect(w, r, Root, http.StatusSeeOther)
}

// open returns the session of the link in a request.
func (p *Portal) open(r *http.Request) (session.Session, error) {
	link, err := portallink.Open(p.LinkKey, r.URL.Query().Get("code"), p.Now())
	switch {
	case errors.Is(err, portallink.ErrExpired):
		return session.Session{}, errExpired
	case err != nil:
		return session.Session{}, errLink
	}
	if err := p.takeEntry(r); err != nil {
		return session.Session{}, err
	}
	slugs, err := p.Tenants.TenantSlugs(r.Context(), []eventhook.TenantID{link.TenantID})
	if err != nil {
		return session.Session{}, err
	}
	slug := slugs[link.TenantID]
	if slug == "" {
		return session.Session{}, errTenantEnded
	}
	return sessionOf(link, slug), p.checkTenant(r.Context(), slug)
}

// sessionOf returns the session that a link of a tenant grants.
func sessionOf(link portallink.Link, slug string) session.Session {
	name := "portal " + link.Scope
	scopes := []eventhook.Scope{eventhook.ScopeRead}
	if !link.IsReadOnly {
		scopes = append(scopes, eventhook.ScopeManage)
	}
	grant := &eventhook.Grant{Name: name, Tenants: map[string][]eventhook.Scope{slug: scopes},
		Customer: &eventhook.Customer{Scope: link.Scope, LinkID: link.ID, MaxEndpoints: link.MaxEndpoints}}
	return session.Session{Kind: session.Portal, Name: name, TenantSlug: slug, Scope: link.Scope, ReadOnly: link.IsReadOnly,
		ExpiresAt: link.ExpiresAt, Grant: grant}
}
