package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/clients"
	"github.com/eventhook/eventhook/internal/console"
	"github.com/eventhook/eventhook/internal/openid"
	"github.com/eventhook/eventhook/internal/session"
)

// registerConsole adds the web console to a router. Its pages call the API in this process; on an
// instance without the role api, this API has no address of its own.
func (g *gateway) registerConsole(e *echo.Echo) {
	c := console.Config{API: g.apiInProcess(e), Sessions: g.sessions, Jar: g.jar(), Log: g.log, Now: now, Version: version}
	if g.config.Console.OpenID.Issuer != "" {
		c.OpenID = openid.New(g.config.Console.OpenID, openid.Deps{PublicURL: g.config.PublicURL, Key: g.keys.ring.Derive("openid-attempts"), Jar: g.jar(),
			Client: g.client, Log: g.log, Now: now})
	}
	pages := echo.WrapHandler(console.New(c))
	e.Any(console.Root, pages)
	e.Any(console.Root+"/*", pages)
}

// jar returns the cookies of console and portal.
func (g *gateway) jar() session.Jar {
	return session.Jar{IsHTTPS: strings.HasPrefix(g.config.PublicURL, "https://")}
}

// newSessions returns the sessions of the console or the portal.
func (g *gateway) newSessions(kind session.Kind, cookies session.Cookie) *session.Sessions {
	return session.New(session.Config{Kind: kind, Cookies: cookies, Store: g.db, Jar: g.jar(), Client: g.client, Actor: g.actor, Now: now})
}

// client returns the client address of a request.
func (g *gateway) client(r *http.Request) netip.Addr { return g.handler.Sender(r) }

// actor returns the address and the ids of a request for the audit log.
func (g *gateway) actor(r *http.Request) eventhook.Actor {
	trace, _, _ := ingest.TraceOf(r.Header)
	return eventhook.Actor{SourceIP: clients.Text(g.client(r)), RequestID: eventhook.SanitizeLabel(r.Header.Get(ingest.RequestIDHeader)), TraceID: trace}
}

// signInLinkTTL is how long the sign-in link that make run prints can be used.
const signInLinkTTL = time.Hour

// announceConsole prints the address of the console. On a private gateway, which generates its keys,
// it is a link that signs the reader in once as the admin.
func (g *gateway) announceConsole(w io.Writer, isPrivate bool) {
	if !g.config.HasRole(configs.RoleConsole) {
		return
	}
	address := g.config.PublicURL + console.Root
	if !isPrivate {
		_, _ = fmt.Fprintf(w, "  console           %s\n", address)
		return
	}
	hash := sha256.Sum256([]byte(g.keys.admin[0].Reveal()))
	code, err := g.sessions.NewLink(context.Background(), session.Session{Kind: session.Console, KeyHash: hash[:], Name: "admin key"}, signInLinkTTL)
	if err != nil {
		g.log.Warn("no sign-in link can be made; sign in to the console with the admin key", "error", err)
		_, _ = fmt.Fprintf(w, "  console           %s\n", address)
		return
	}
	_, _ = fmt.Fprintf(w, "  console           %s/link?code=%s\n                    (signs you in once, within an hour; then %[1]s)\n", address, code)
}
