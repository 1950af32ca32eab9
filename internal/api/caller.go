package api

import (
	"context"
	"net/http"
	"net/netip"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
)

// caller describes the sender of an authorized request. The tenant is zero on admin
// paths.
type caller struct {
	tenant      eventhook.TenantID
	admin       bool
	key         eventhook.KeyID     // zero for the admin key
	keyName     string              // of the admin key, too
	keyHash     keyHash             // of the key or the grant that authenticated the request
	isGrant     bool                // a session without a key
	customer    *eventhook.Customer // of the grant; nil for callers that are no customers
	via         string              // of the session
	holder      *identity           // of the key or the grant; nil unless the operation tells the caller about itself
	agent       eventhook.Agent     // id and labels of the agent of the key; zero for other keys
	address     netip.Addr
	requestID   string
	trace       string       // W3C trace id of the request; "" if it had none
	parentSpan  string       // of the same header
	traceFlags  string       // of the same header
	hops        int          // gateways that the request went through
	reservation *reservation // of the request budgets
}

// identify fills in the caller's identity for an operation.
func (c *caller) identify(h identity, from credential, n requirement) {
	c.keyHash = from.hash
	if n.isOwn {
		holder := h // h itself would be allocated for every request
		c.holder = &holder
	}
	switch {
	case h.grant != nil:
		c.isGrant, c.keyName, c.admin, c.customer = true, h.grant.Name, h.grant.MayAdminister(n.isRead), h.grant.Customer
	case h.admin != nil:
		c.keyName, c.admin = h.admin.name, true
	default:
		c.key, c.keyName = h.key.ID, h.key.Name
		c.agent = eventhook.Agent{ID: h.key.AgentID, Labels: h.key.AgentLabels}
	}
}

// budgetKey identifies the key or the grant in the request budgets; zero for admins.
func (c caller) budgetKey() eventhook.KeyID {
	if c.isGrant && !c.admin {
		return eventhook.KeyID(c.keyHash[:16])
	}
	return c.key
}

// actor returns the caller as the audit log records it. An admin on a path of a
// tenant acts on behalf of that tenant.
func (c caller) actor() eventhook.Actor {
	a := eventhook.Actor{Type: eventhook.ActorKey, KeyID: c.key, Name: c.keyName, RequestID: c.requestID, TraceID: c.trace,
		ParentSpan: c.parentSpan, TraceFlags: c.traceFlags, Via: c.via}
	switch {
	case c.admin && (c.tenant.IsZero() || c.tenant == eventhook.OperatorTenant):
		a.Type = eventhook.ActorAdmin
	case c.admin:
		a.Type = eventhook.ActorOnBehalf
	case c.isGrant:
		a.Type = eventhook.ActorSession
	}
	if c.address.IsValid() {
		a.SourceIP = c.address.String()
	}
	return a
}

// onBehalf returns the actor of a change that an admin makes for a tenant on an
// admin path.
func (c caller) onBehalf() eventhook.Actor {
	a := c.actor()
	a.Type = eventhook.ActorOnBehalf
	return a
}

type callerKey struct{}

// callerOf returns the caller that the middleware stored in ctx. Every operation has
// one.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// requestID returns the request id that the client sent, or a new one, and sets it
// in the response.
func (s *server) requestID(ctx huma.Context) string {
	id := ingest.RequestIDOf(requestOf(ctx).Header, s.Now())
	ctx.SetHeader(ingest.RequestIDHeader, id)
	return id
}

// addressOf returns the client address; the zero Addr if it is unknown.
func (s *server) addressOf(ctx huma.Context) netip.Addr {
	if s.ClientAddress == nil {
		return netip.Addr{}
	}
	return s.ClientAddress(requestOf(ctx))
}

func requestOf(ctx huma.Context) *http.Request { return humaecho.Unwrap(ctx).Request() }

// headerOf returns the header of the response.
func headerOf(ctx huma.Context) http.Header { return humaecho.Unwrap(ctx).Response().Header() }
