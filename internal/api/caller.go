package api

import (
	"context"
	"net/http"
	"net/netip"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"github.com/eventhook/eventhook"
)

// caller is who makes a request, from where, and for which tenant. The tenant
// is zero on the admin's own paths.
type caller struct {
	tenant      eventhook.TenantID
	admin       bool
	key         eventhook.KeyID // of a tenant's key
	keyName     string
	address     netip.Addr
	requestID   string
	reservation *reservation // of the budgets
}

// actor is the caller as the audit log tells of him. What the admin does on a
// tenant's path he does on its behalf.
func (c caller) actor() eventhook.Actor {
	a := eventhook.Actor{Type: eventhook.ActorKey, KeyID: c.key, Name: c.keyName, RequestID: c.requestID}
	switch {
	case c.admin && c.tenant.IsZero():
		a.Type, a.Name = eventhook.ActorAdmin, "admin key"
	case c.admin:
		a.Type, a.Name = eventhook.ActorOnBehalf, "admin key"
	}
	if c.address.IsValid() {
		a.SourceIP = c.address.String()
	}
	return a
}

// onBehalf is the actor of what an admin does for a tenant on a path of his own.
func (c caller) onBehalf() eventhook.Actor {
	a := c.actor()
	a.Type = eventhook.ActorOnBehalf
	return a
}

type callerKey struct{}

// callerOf is who the middleware found. Operations always have one.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

const requestIDHeader = "X-Request-Id"

// requestID is the client's, or a new one; the answer carries it.
func (s *server) requestID(ctx huma.Context) string {
	id := eventhook.SanitizeLabel(ctx.Header(requestIDHeader))
	if id == "" {
		id = eventhook.NewID[caller](s.Now()).String()
	}
	ctx.SetHeader(requestIDHeader, id)
	return id
}

// addressOf is the client's address; not valid if it is not known.
func (s *server) addressOf(ctx huma.Context) netip.Addr {
	if s.ClientAddress == nil {
		return netip.Addr{}
	}
	return s.ClientAddress(requestOf(ctx))
}

func requestOf(ctx huma.Context) *http.Request { return humaecho.Unwrap(ctx).Request() }

// headerOf is the header of the answer.
func headerOf(ctx huma.Context) http.Header { return humaecho.Unwrap(ctx).Response().Header() }
