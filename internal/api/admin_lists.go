package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// TenantPart is the filter of a list over all tenants.
type TenantPart struct {
	Tenant string `query:"tenant" doc:"Return only items of the tenant with this slug."`
}

// EventOfTenant is an event in a list over all tenants.
type EventOfTenant struct {
	Tenant string `json:"tenant" doc:"Slug of the tenant."`
	EventView
}

// DeliveryOfTenant is a delivery in a list over all tenants.
type DeliveryOfTenant struct {
	Tenant string `json:"tenant" doc:"Slug of the tenant of the event."`
	Delivery
}

// SubscriptionOfTenant is a subscription in a list over all tenants.
type SubscriptionOfTenant struct {
	Tenant string `json:"tenant,omitempty" doc:"Slug of the tenant; absent for an operator subscription."`
	Subscription
}

func (s *server) registerAdminLists(api huma.API) {
	list := func(id, path, summary, about string) operation {
		return operation{id: id, method: http.MethodGet, path: "/api/admin/" + path, tag: "admin", summary: summary,
			about: "Newest first. 404 if the tenant does not exist. " + about}
	}
	register(s, api, list("list-all-events", "events", "List events of all tenants", aboutScans), s.listAllEvents)
	register(s, api, list("list-all-deliveries", "deliveries", "List deliveries of all tenants", aboutScans), s.listAllDeliveries)
	register(s, api, list("list-all-subscriptions", "subscriptions", "List subscriptions of all tenants",
		"The list has the operator subscriptions, too: they have is_operator and no tenant."), s.listAllSubscriptions)
}

type allEventsQuery struct {
	TenantPart
	EventQuery
}

func (s *server) listAllEvents(ctx context.Context, _ caller, in *allEventsQuery) (*page[EventOfTenant], error) {
	tenant, err := s.tenantNamed(ctx, in.Tenant)
	if err != nil {
		return nil, err
	}
	pages := s.pager("all events", tenant)
	f, err := in.filter(pages)
	if err != nil {
		return nil, err
	}
	var found eventhook.EventScan
	if tenant.IsZero() {
		found, err = s.Events.ScanEvents(ctx, tenant, f)
	} else {
		found, err = s.findEvents(ctx, tenant, f)
	}
	if err != nil {
		return nil, err
	}
	slugs, err := slugsOf(ctx, s, found.Events, func(e eventhook.Event) eventhook.TenantID { return e.TenantID })
	show := func(e eventhook.Event) EventOfTenant { return EventOfTenant{slugs[e.TenantID], viewEvent(e)} }
	return scannedPage(pages, found.Events, found.Next, in.Limit, show, eventIDOf), err
}

type allDeliveriesQuery struct {
	TenantPart
	SubscriptionID string `query:"subscription_id" format:"uuid" doc:"Return only deliveries to this subscription."`
	RouteID        string `query:"route_id" format:"uuid" doc:"Return only deliveries to the targets of this route."`
	DeliveryQuery
}

func (s *server) listAllDeliveries(ctx context.Context, _ caller, in *allDeliveriesQuery) (*page[DeliveryOfTenant], error) {
	tenant, err := s.tenantNamed(ctx, in.Tenant)
	if err != nil {
		return nil, err
	}
	pages := s.pager("all deliveries", tenant)
	f, err := in.filter(pages, in.SubscriptionID, in.RouteID)
	if err != nil {
		return nil, err
	}
	var found eventhook.DeliveryScan
	if tenant.IsZero() {
		found, err = s.Deliveries.ScanDeliveries(ctx, tenant, f)
	} else {
		found, err = s.findDeliveries(ctx, tenant, f)
	}
	if err != nil {
		return nil, err
	}
	return s.deliveriesOfTenants(ctx, tenantsPage{pages, tenant, found, in.Limit})
}

type allSubscriptionsQuery struct {
	TenantPart
	IsOperator bool `query:"is_operator" doc:"Return only operator subscriptions; not with tenant."`
	SubscriptionQuery
}

func (s *server) listAllSubscriptions(ctx context.Context, _ caller, in *allSubscriptionsQuery) (*page[SubscriptionOfTenant], error) {
	tenant, err := s.tenantNamed(ctx, in.Tenant)
	switch {
	case err != nil:
		return nil, err
	case in.IsOperator && !tenant.IsZero():
		return nil, invalid("query.is_operator", "operator subscriptions have no tenant: omit tenant, or is_operator")
	case in.IsOperator:
		tenant = eventhook.OperatorTenant
	}
	pages := s.pager("all subscriptions", tenant)
	f, err := in.SubscriptionQuery.filter(pages)
	if err != nil {
		return nil, err
	}
	list, err := s.Subscriptions.Subscriptions(ctx, tenant, f)
	if err != nil {
		return nil, err
	}
	show := func(x eventhook.Subscription) SubscriptionOfTenant {
		if x.IsOperator() {
			return SubscriptionOfTenant{Subscription: s.viewSubscription(x)}
		}
		return SubscriptionOfTenant{x.TenantSlug, s.viewSubscription(x)}
	}
	found := newPage(pages, list, in.Limit, show, func(x eventhook.Subscription) eventhook.SubscriptionID { return x.ID })
	views := make([]*Subscription, len(found.Body.Items))
	labels := make([]labelled, len(views))
	for i := range views {
		v := &found.Body.Items[i].Subscription
		views[i], labels[i] = v, labelled{list[i].TenantID, "", v.TargetLabels, &v.Warnings}
	}
	return found, errors.Join(s.warnOfTenants(ctx, views...), s.warnOfLabels(ctx, labels))
}

// slugsOf returns the slugs of the tenants of a list.
func slugsOf[T any](ctx context.Context, s *server, list []T, tenant func(T) eventhook.TenantID) (map[eventhook.TenantID]string, error) {
	seen := map[eventhook.TenantID]bool{}
	var ids []eventhook.TenantID
	for _, x := range list {
		if id := tenant(x); !seen[id] {
			ids = append(ids, id)
			seen[id] = true
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return s.Admin.TenantSlugs(ctx, ids)
}
