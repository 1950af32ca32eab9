package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// LookupStore finds resources by whatever identifier a person has.
type LookupStore interface {
	// Lookup returns the resources of a tenant that text identifies, those of all tenants if
	// tenant is zero, at most eventhook.MaxLookup.
	Lookup(ctx context.Context, tenant eventhook.TenantID, text string) (eventhook.Lookup, error)
}

// LookupQuery is the text of a lookup.
type LookupQuery struct {
	ID string `query:"id" required:"true" maxLength:"512" example:"0195d3a4-6000-7e54-8d72-6fa08192a3b4" doc:"An id of any kind, an idempotency key, a trace id (32 hexadecimal digits), a request id or a correlation id; or the beginning of a source's slug, a subscription's name or an event type. Surrounding spaces and quotes are ignored."`
}

// LookupItem is a resource that a lookup found.
type LookupItem struct {
	Type           string     `json:"type" enum:"event,delivery,execution,promise,subscription,source,route,replay,agent,event_type"`
	ID             string     `json:"id" doc:"Id of the resource; the slug of a source, and the name of an event type."`
	Label          string     `json:"label" doc:"Short description."`
	At             *time.Time `json:"at" doc:"When the resource was created; null if unknown."`
	SourceSlug     *string    `json:"source_slug" doc:"Source of the route; null for other types."`
	SubscriptionID *string    `json:"subscription_id" format:"uuid" doc:"Subscription of the replay; null for other types."`
}

// LookupItemOfTenant is an item of a lookup over all tenants.
type LookupItemOfTenant struct {
	Tenant string `json:"tenant" doc:"Slug of the tenant."`
	LookupItem
}

// LookupFound is the response to a lookup.
type LookupFound struct {
	Items        []LookupItem `json:"items" doc:"At most 20 resources, those with exactly this id first."`
	ScannedUntil *time.Time   `json:"scanned_until" doc:"Trace, request and correlation ids were searched in the events received after this time; null if all events were searched, or none had to be."`
}

// LookupFoundOfTenants is the response to a lookup over all tenants.
type LookupFoundOfTenants struct {
	Items        []LookupItemOfTenant `json:"items" doc:"At most 20 resources, those with exactly this id first."`
	ScannedUntil *time.Time           `json:"scanned_until" doc:"Trace, request and correlation ids were searched in the events received after this time; null if all events were searched, or none had to be."`
}

func viewLookup(x eventhook.LookupItem) LookupItem {
	v := LookupItem{Type: string(x.Type), ID: x.ID, Label: x.Label, At: optionalMoment(x.At), SubscriptionID: optionalID(x.SubscriptionID)}
	if x.Type == eventhook.LookupRoute {
		v.SourceSlug = optional(x.SourceSlug)
	}
	return v
}

func (s *server) registerLookup(api huma.API) {
	const about = "Searches by exact id first: events, deliveries, executions, promises, subscriptions, routes, replays and agents by id, and events, executions and promises by idempotency key. " +
		"Then by the beginning of slugs, names and event types. If nothing has the id, the newest events are searched for the trace, request or correlation id, for at most 1 s: scanned_until says how far the search came."
	register(s, api, operation{id: "lookup", method: http.MethodGet, path: base + "/lookup", scope: eventhook.ScopeRead, tag: "events",
		summary: "Search a resource by any id", about: about}, s.lookup)
	register(s, api, operation{id: "lookup-all", method: http.MethodGet, path: "/api/admin/lookup", tag: "admin",
		summary: "Search a resource of any tenant by any id", about: about}, s.lookupAll)
}

type lookupQuery struct {
	TenantPath
	LookupQuery
}

type lookupAnswer struct{ Body LookupFound }

func (s *server) lookup(ctx context.Context, by caller, in *lookupQuery) (*lookupAnswer, error) {
	found, err := s.find(ctx, by.tenant, in.ID)
	if err != nil {
		return nil, err
	}
	out := LookupFound{[]LookupItem{}, optionalMoment(found.ScannedUntil)}
	for _, x := range found.Items {
		out.Items = append(out.Items, viewLookup(x))
	}
	return &lookupAnswer{out}, nil
}

// find looks up the text that a person pasted.
func (s *server) find(ctx context.Context, tenant eventhook.TenantID, pasted string) (eventhook.Lookup, error) {
	text := eventhook.LookupText(pasted)
	if text == "" {
		return eventhook.Lookup{}, invalid("query.id", "must not be empty")
	}
	return s.Lookups.Lookup(ctx, tenant, text)
}

type lookupAllAnswer struct{ Body LookupFoundOfTenants }

func (s *server) lookupAll(ctx context.Context, _ caller, in *LookupQuery) (*lookupAllAnswer, error) {
	found, err := s.find(ctx, eventhook.TenantID{}, in.ID)
	if err != nil {
		return nil, err
	}
	slugs, err := slugsOf(ctx, s, found.Items, func(x eventhook.LookupItem) eventhook.TenantID { return x.TenantID })
	out := LookupFoundOfTenants{[]LookupItemOfTenant{}, optionalMoment(found.ScannedUntil)}
	for _, x := range found.Items {
		out.Items = append(out.Items, LookupItemOfTenant{slugs[x.TenantID], viewLookup(x)})
	}
	return &lookupAllAnswer{out}, err
}
