package api

import (
	"context"
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// A customer of a tenant calls the API through the portal, with a grant that has a Customer. It may
// call customerOperations only, sees the subscriptions that are visible to its scope, and of these
// the deliveries whose events are of its scope. Everything else is KindNotFound for it, as if it
// did not exist.

// customerOperations are the operations that a customer may call. A handler of one of them finds
// subscriptions with findSubscription, applyToSubscription or a filter for scope(), deliveries with
// findDelivery, checkDelivery or a filter for scope(), and replays with replaysOf.
var customerOperations = []string{
	"list-subscriptions", "get-subscription", "create-subscription", "update-subscription", "delete-subscription",
	"pause-subscription", "resume-subscription", "enable-subscription", "test-subscription", "rotate-subscription-secret",
	"get-subscription-stats", "list-subscription-deliveries", "get-delivery", "get-delivery-request", "retry-delivery",
	"replay-subscription", "list-replays", "cancel-replay", "list-event-types",
}

var errNotForCustomers = &eventhook.Error{Kind: eventhook.KindForbidden,
	Message: "A link to the portal does not permit this operation."}

// scope returns the scope of the customer; "" for other callers.
func (c caller) scope() string {
	if c.customer == nil {
		return ""
	}
	return c.customer.Scope
}

// sees reports whether the caller may see a subscription of its tenant.
func (c caller) sees(x eventhook.Subscription) bool {
	return c.customer == nil || !x.IsOperator() && x.IsVisibleTo(c.customer.Scope)
}

// replaysOf returns the filter of the replays of a subscription that the caller may see. Replays, and
// recoveries of outages, that began before a customer got the subscription have counts of deliveries to
// others.
func (c caller) replaysOf(x eventhook.Subscription) (f eventhook.ReplayFilter) {
	f.SubscriptionID = x.ID
	if c.customer != nil && x.NarrowedAt != nil {
		f.CreatedAfter = *x.NarrowedAt
	}
	return f
}

// budgetTenant identifies the tenant in the budgets and slots of requests; zero for admins. The
// customers of a tenant have budgets and slots of their own, so that they never use up those of
// the tenant's keys.
func (c caller) budgetTenant() eventhook.TenantID {
	switch {
	case c.admin:
		return eventhook.TenantID{}
	case c.customer != nil:
		hash := sha256.Sum256(append([]byte("customers\x00"), c.tenant[:]...))
		return eventhook.TenantID(hash[:len(c.tenant)])
	}
	return c.tenant
}

// checkCustomer returns an error if a customer may not change a subscription from have, zero for
// a new one, to want. The destination of a subscription for agents is in the network of the
// tenant, where no policy of the gateway checks addresses: only the tenant sets it.
func (c caller) checkCustomer(have, want eventhook.Subscription) error {
	if c.customer == nil {
		return nil
	}
	const setBySender = "is set by the sender"
	var rules eventhook.Faults
	if isNew := have.ID.IsZero(); isNew && !c.sees(want) || !isNew && !slices.Equal(have.ScopeFilter, want.ScopeFilter) {
		rules.Add("body.scope_filter", setBySender)
	}
	if !slices.Equal(have.TargetLabels, want.TargetLabels) {
		rules.Add("body.target_labels", setBySender)
	}
	if have.IsForAgents() && !have.URL.Equal(want.URL) {
		rules.Add("body.url", setBySender)
	}
	return combinedError(nil, rules)
}

// createFor creates a subscription. That of a customer counts towards the limit of its scope.
func (s *server) createFor(ctx context.Context, by caller,
	want eventhook.Subscription) (eventhook.Subscription, error) {
	if by.customer == nil {
		return s.Subscriptions.CreateSubscription(ctx, by.actor(), want)
	}
	return s.Subscriptions.CreateCustomerSubscription(ctx, by.actor(), want, *by.customer)
}

// findDelivery returns a delivery of a path with its attempts.
func (s *server) findDelivery(ctx context.Context, by caller,
	in *DeliveryPath) (eventhook.Delivery, []eventhook.Attempt, error) {
	id, err := eventhook.ParseID[eventhook.Delivery](in.ID)
	if err != nil {
		return eventhook.Delivery{}, nil, err
	}
	d, attempts, err := s.Deliveries.Delivery(ctx, by.tenant, id)
	if err == nil {
		err = s.checkDelivery(ctx, by, d)
	}
	return d, attempts, err
}

// checkDelivery returns KindNotFound if the caller is a customer that may not see a delivery of the
// tenant.
func (s *server) checkDelivery(ctx context.Context, by caller, d eventhook.Delivery) error {
	if by.customer == nil {
		return nil
	}
	// A delivery of a route has no subscription, so that none is found.
	x, err := s.Subscriptions.Subscription(ctx, by.tenant, d.SubscriptionID)
	switch {
	case eventhook.KindOf(err) == eventhook.KindNotFound, err == nil && !by.sees(x):
		return eventhook.NotFound("delivery")
	case err != nil:
		return err
	}
	found, err := s.Deliveries.ScanDeliveries(ctx, by.tenant,
		eventhook.DeliveryFilter{SubscriptionID: x.ID, EventID: d.EventID, Scope: by.scope(), Limit: 1})
	if err == nil && len(found.Deliveries) == 0 {
		err = eventhook.NotFound("delivery")
	}
	return err
}

// estimate returns how many events a replay would match. That for a customer counts stored deliveries of
// its scope.
func (s *server) estimate(ctx context.Context, by caller, x eventhook.Subscription,
	want eventhook.ReplayRequest) (n int64, err error) {
	if by.customer == nil {
		return s.Replays.Estimate(ctx, x, want)
	}
	const most = 1000
	for _, status := range want.Normalized().Statuses {
		found, err := s.Deliveries.ScanDeliveries(ctx, by.tenant, eventhook.DeliveryFilter{SubscriptionID: x.ID,
			Status: status, Scope: by.scope(),
			CreatedAfter: want.Since, CreatedBefore: want.Until, Limit: most})
		if err != nil {
			return 0, err
		}
		n += int64(len(found.Deliveries))
	}
	return n, nil
}

// forCaller returns the error of an attempt as the caller may see it: a customer does not see the
// token endpoint of the tenant.
func (c caller) forCaller(message string) string {
	if c.customer != nil && strings.HasPrefix(message, eventhook.NoToken) {
		return eventhook.NoToken
	}
	return message
}
