package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// The deliveries and replays of an operator subscription. Each delivery has the tenant of its
// event.

func (s *server) registerOperatorDeliveries(api huma.API) {
	list := operatorOperation("list-operator-subscription-deliveries", http.MethodGet, "/{id}/deliveries",
		"List the deliveries of an operator subscription")
	list.about = "Newest first, each with the tenant of its event. With event_type: " + aboutScans
	register(s, api, list, s.listOperatorDeliveries)
	start := operatorOperation("replay-operator-subscription", http.MethodPost, "/{id}/replay", "Replay events to an operator subscription")
	start.skipsShape, start.class, start.status = true, bulks, http.StatusAccepted
	start.about = "As for a tenant's subscription, with the events of all tenants, or of the tenants that the subscription names now. 409 if the subscription is disabled; enable it first."
	register(s, api, start, s.replayToOperator)
	all := operatorOperation("list-operator-subscription-replays", http.MethodGet, "/{id}/replays",
		"List replays of an operator subscription")
	all.about = "Newest first. The list includes recoveries, which the gateway starts when an outage of the receiver ends."
	register(s, api, all, s.listOperatorReplays)
	register(s, api, operatorOperation("get-operator-subscription-replay", http.MethodGet, "/{id}/replays/{replay_id}",
		"Get a replay of an operator subscription"), onOperatorReplay(s.getReplay))
	end := operatorOperation("cancel-operator-subscription-replay", http.MethodPost, "/{id}/replays/{replay_id}/cancel",
		"Cancel a replay of an operator subscription")
	end.about = "Ends a running replay: it queues no more deliveries. Deliveries that it has queued are still sent. 409 if the replay has ended."
	register(s, api, end, onOperatorReplay(s.cancelReplay))
}

type operatorDeliveriesQuery struct {
	OperatorSubscriptionPath
	DeliveryQuery
}

func (s *server) listOperatorDeliveries(ctx context.Context, by caller, in *operatorDeliveriesQuery) (*page[DeliveryOfTenant], error) {
	by = by.asOperator()
	if _, err := s.findSubscription(ctx, by, new(in.inTenant())); err != nil {
		return nil, err
	}
	pages := s.pager("deliveries of "+in.ID, by.tenant)
	f, err := in.filter(pages, in.ID, "")
	if err != nil {
		return nil, err
	}
	found, err := s.findDeliveries(ctx, by.tenant, f)
	if err != nil {
		return nil, err
	}
	return s.deliveriesOfTenants(ctx, tenantsPage{pages, by.tenant, found, in.Limit})
}

type operatorReplayRequest struct {
	OperatorSubscriptionPath
	Body document[SubscriptionReplay]
}

func (s *server) replayToOperator(ctx context.Context, by caller, in *operatorReplayRequest) (*replayAnswer, error) {
	started, err := s.replay(ctx, by.asOperator(), &replayRequest{in.inTenant(), in.Body})
	if err == nil {
		started.Location = operatorPath + "/" + in.ID + "/replays/" + started.Body.ReplayID
	}
	return started, err
}

type operatorReplaysQuery struct {
	OperatorSubscriptionPath
	PageQuery
	Status string `query:"status" enum:"running,completed,cancelled" doc:"Return only replays with this status."`
}

func (s *server) listOperatorReplays(ctx context.Context, by caller, in *operatorReplaysQuery) (*page[Replay], error) {
	return s.listReplays(ctx, by.asOperator(), &replaysQuery{in.inTenant(), in.PageQuery, in.Status})
}

// OperatorReplayPath is the path of a replay of an operator subscription.
type OperatorReplayPath struct {
	OperatorSubscriptionPath
	ReplayID string `path:"replay_id" format:"uuid" doc:"Replay id."`
}

// onOperatorReplay returns a handler that runs a handler of a replay on an operator
// subscription.
func onOperatorReplay(handle func(context.Context, caller, *ReplayPath) (*oneReplayAnswer, error)) func(context.Context, caller,
	*OperatorReplayPath) (*oneReplayAnswer, error) {
	return func(ctx context.Context, by caller, in *OperatorReplayPath) (*oneReplayAnswer, error) {
		return handle(ctx, by.asOperator(), &ReplayPath{in.inTenant(), in.ReplayID})
	}
}

// tenantsPage has the deliveries of a page, whose tenants differ. tenant owns their
// subscriptions; zero: any tenant.
type tenantsPage struct {
	pages  pager
	tenant eventhook.TenantID
	found  eventhook.DeliveryScan
	limit  int
}

// deliveriesOfTenants returns a page of deliveries with the slugs of their tenants.
func (s *server) deliveriesOfTenants(ctx context.Context, p tenantsPage) (*page[DeliveryOfTenant], error) {
	names, err := s.subscriptionNames(ctx, p.tenant, p.found.Deliveries)
	if err != nil {
		return nil, err
	}
	slugs, err := slugsOf(ctx, s, p.found.Deliveries, func(d eventhook.Delivery) eventhook.TenantID { return d.TenantID })
	show := func(d eventhook.Delivery) DeliveryOfTenant {
		return DeliveryOfTenant{slugs[d.TenantID], viewDelivery(d, names)}
	}
	return scannedPage(p.pages, p.found.Deliveries, p.found.Next, p.limit, show,
		func(d eventhook.Delivery) eventhook.DeliveryID { return d.ID }), err
}
