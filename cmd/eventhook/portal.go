package main

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/portal"
	"github.com/eventhook/eventhook/internal/session"
)

// portalLinkKey returns the key that signs links to the portal. It is the same on all instances.
func (g *gateway) portalLinkKey() []byte { return g.keys.ring.Derive("portal-links") }

// registerPortal adds the portal to a router. Its pages call the API in this process, as those of the
// console do.
func (g *gateway) registerPortal(e *echo.Echo) {
	pages := echo.WrapHandler(portal.New(portal.Config{API: g.apiInProcess(e), Sessions: g.newSessions(session.Portal, session.PortalCookies()), Tenants: g.db,
		LinkKey: g.portalLinkKey(), Branding: g.config.Portal, Logo: g.logo, Jar: g.jar(), Client: g.handler.Sender, Log: g.log, Now: now}))
	e.Any(portal.Root, pages)
	e.Any(portal.Root+"/*", pages)
}

// apiInProcess returns the handler of the API for pages of this instance. On an instance without the
// role api, this API has no address of its own.
func (g *gateway) apiInProcess(e *echo.Echo) http.Handler {
	if g.config.HasRole(configs.RoleAPI) {
		return e
	}
	inside := g.newRouter()
	g.registerAPI(inside)
	return inside
}
