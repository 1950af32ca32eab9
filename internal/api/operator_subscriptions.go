package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// Operator subscriptions have the operations of a tenant's subscriptions, on the operator
// tenant.

const operatorPath = "/api/admin/subscriptions"

func operatorOperation(id, method, path, summary string) operation {
	return operation{id: id, method: method, path: operatorPath + path, summary: summary, tag: "admin"}
}

func (s *server) registerOperatorSubscriptions(api huma.API) {
	create := operatorOperation("create-operator-subscription", http.MethodPost, "", "Create an operator subscription")
	create.status, create.skipsShape, create.maxBody = http.StatusCreated, true, configBody
	create.about = "The subscription receives published events and system events of all tenants, or of the given tenants, also of types that only the admin sees, such as tenant.closed. " +
		"No tenant sees it or its deliveries. There are at most 50. The response contains the signing secret, which is returned only once."
	update := operatorOperation("update-operator-subscription", http.MethodPatch, "/{id}", "Update an operator subscription")
	update.skipsShape, update.maxBody = true, configBody
	update.about = "The body is a JSON merge patch, as for a tenant's subscription."
	remove := operatorOperation("delete-operator-subscription", http.MethodDelete, "/{id}", "Delete an operator subscription")
	remove.status, remove.about = http.StatusNoContent, "Deliveries that are still waiting are not sent."
	register(s, api, create, s.createOperatorSubscription)
	register(s, api, operatorOperation("get-operator-subscription", http.MethodGet, "/{id}", "Get an operator subscription"),
		onOperator(s.getSubscription))
	register(s, api, update, s.updateOperatorSubscription)
	register(s, api, remove, s.deleteOperatorSubscription)
	s.registerOperatorActions(api)
	s.registerOperatorDeliveries(api)
}

func (s *server) registerOperatorActions(api huma.API) {
	action := func(verb, summary string) operation {
		return operatorOperation(verb+"-operator-subscription", http.MethodPost, "/{id}/"+verb, summary)
	}
	register(s, api, action("pause", "Pause an operator subscription"), onOperator(s.pauseSubscription))
	register(s, api, action("resume", "Resume an operator subscription"), onOperator(s.resumeSubscription))
	register(s, api, action("enable", "Enable an operator subscription"), onOperator(s.enableSubscription))
	register(s, api, action("disable", "Disable an operator subscription"), onOperator(s.disableSubscription))
	test := action("test", "Test an operator subscription by sending a test event")
	test.class = trials
	register(s, api, test, onOperator(s.testSubscription))
	rotate := operatorOperation("rotate-operator-subscription-secret", http.MethodPost, "/{id}/rotate-secret",
		"Rotate the signing secret of an operator subscription")
	rotate.skipsShape = true
	register(s, api, rotate, s.rotateOperatorSecret)
	register(s, api, operatorOperation("get-operator-subscription-stats", http.MethodGet, "/{id}/stats",
		"Get statistics of an operator subscription"), onOperator(s.getStats))
	register(s, api, operatorOperation("get-operator-subscription-public-key", http.MethodGet, "/{id}/public-key",
		"Get the public key of an operator subscription"), onOperator(s.getPublicKey))
}

// OperatorSubscriptionPath is the part of a path that identifies an operator subscription.
type OperatorSubscriptionPath struct {
	ID string `path:"id" format:"uuid" doc:"Subscription id."`
}

func (p OperatorSubscriptionPath) inTenant() SubscriptionPath {
	return SubscriptionPath{TenantPath{eventhook.OperatorSlug}, p.ID}
}

// asOperator returns the caller acting on the operator tenant.
func (c caller) asOperator() caller {
	c.tenant = eventhook.OperatorTenant
	return c
}

// onOperator returns a handler that runs a handler of a tenant's subscription on an operator
// subscription.
func onOperator[O any](handle func(context.Context, caller, *SubscriptionPath) (*O, error)) func(context.Context, caller,
	*OperatorSubscriptionPath) (*O, error) {
	return func(ctx context.Context, by caller, in *OperatorSubscriptionPath) (*O, error) {
		return handle(ctx, by.asOperator(), new(in.inTenant()))
	}
}

type createOperatorSubscriptionRequest struct{ Body document[SubscriptionCreate] }

func (s *server) createOperatorSubscription(ctx context.Context, by caller,
	in *createOperatorSubscriptionRequest) (*createdSubscription, error) {
	created, err := s.createSubscription(ctx, by.asOperator(), &createSubscriptionRequest{TenantPath{eventhook.OperatorSlug}, in.Body})
	if err == nil {
		created.Location = operatorPath + "/" + created.Body.ID
	}
	return created, err
}

type updateOperatorSubscriptionRequest struct {
	OperatorSubscriptionPath
	IfMatch
	Body document[SubscriptionPatch]
}

func (s *server) updateOperatorSubscription(ctx context.Context, by caller,
	in *updateOperatorSubscriptionRequest) (*subscriptionAnswer, error) {
	return s.updateSubscription(ctx, by.asOperator(), &updateSubscriptionRequest{in.inTenant(), in.IfMatch, in.Body})
}

type deleteOperatorSubscriptionRequest struct {
	OperatorSubscriptionPath
	IfMatch
}

func (s *server) deleteOperatorSubscription(ctx context.Context, by caller, in *deleteOperatorSubscriptionRequest) (*struct{}, error) {
	return s.deleteSubscription(ctx, by.asOperator(), &deleteSubscriptionRequest{in.inTenant(), in.IfMatch})
}

type rotateOperatorRequest struct {
	OperatorSubscriptionPath
	Body *document[SecretRotation]
}

func (s *server) rotateOperatorSecret(ctx context.Context, by caller, in *rotateOperatorRequest) (*rotateAnswer, error) {
	return s.rotateSecret(ctx, by.asOperator(), &rotateRequest{in.inTenant(), in.Body})
}
