package cli

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
)

// The commands of subscriptions work on operator subscriptions with --operator. The calls below
// choose between the operation on a subscription of the tenant and its twin under /api/admin.

const operatorFlag = "operator"

// The calls for one subscription, which need no more than its id.
type (
	tenantCall[T any]   func(c *client.Client, ctx context.Context, tenant, id string, options ...client.CallOption) (T, error)
	operatorCall[T any] func(c *client.Client, ctx context.Context, id string, options ...client.CallOption) (T, error)
)

// callSubscription calls one of two operations for a subscription.
func callSubscription[T any](ctx context.Context, s *session, id string, ofTenant tenantCall[T], ofOperator operatorCall[T]) (T, error) {
	if s.isOperator {
		return ofOperator(s.Client, ctx, id, s.keepBody())
	}
	return ofTenant(s.Client, ctx, s.tenant, id, s.keepBody())
}

// checkScope refuses flags that select contradictory scopes: a tenant, all tenants, or operator
// subscriptions.
func checkScope(cmd *cobra.Command, isOperator bool) error {
	isOfTenant, isOfAll := cmd.Flags().Changed("tenant"), isOfAllTenants(cmd)
	switch {
	case isOfAll && isOfTenant:
		return input.Usagef("--tenant and --all-tenants exclude each other")
	case isOperator && isOfTenant:
		return input.Usagef("--tenant and --operator exclude each other: an operator subscription has no tenant")
	case isOperator && isOfAll:
		return input.Usagef("--operator and --all-tenants exclude each other; --all-tenants includes the operator subscriptions")
	}
	return nil
}

// withOperator adds --operator to a command that a hint names, if it is needed.
func (s *session) withOperator(command string) string {
	if s.isOperator {
		command += " --operator"
	}
	return command
}

// listOfSubscriptions returns a page of the tenant's subscriptions or of the operator
// subscriptions.
func (s *session) listOfSubscriptions(ctx context.Context, of client.ListSubscriptionsParams) ([]client.Subscription, *string, error) {
	if !s.isOperator {
		p, err := s.ListSubscriptions(ctx, s.tenant, of, s.keepBody())
		return p.Items, p.NextCursor, err
	}
	params := converted[client.ListAllSubscriptionsParams](of)
	params.IsOperator = &s.isOperator
	p, err := s.ListAllSubscriptions(ctx, params, s.keepBody())
	return converted[[]client.Subscription](p.Items), p.NextCursor, err
}

func (s *session) createSubscription(ctx context.Context, body json.RawMessage) (client.SubscriptionCreated, error) {
	if s.isOperator {
		return s.CreateOperatorSubscriptionFrom(ctx, body, s.keepBody())
	}
	return s.CreateSubscriptionFrom(ctx, s.tenant, body, s.keepBody())
}

func (s *session) updateSubscription(ctx context.Context, id string, body json.RawMessage) (client.Subscription, error) {
	if s.isOperator {
		return s.UpdateOperatorSubscriptionFrom(ctx, id, client.UpdateOperatorSubscriptionParams{}, body, s.keepBody())
	}
	return s.UpdateSubscriptionFrom(ctx, s.tenant, id, client.UpdateSubscriptionParams{}, body, s.keepBody())
}

func (s *session) deleteSubscription(ctx context.Context, id string) error {
	if s.isOperator {
		return s.DeleteOperatorSubscription(ctx, id, client.DeleteOperatorSubscriptionParams{})
	}
	return s.DeleteSubscription(ctx, s.tenant, id, client.DeleteSubscriptionParams{})
}

func (s *session) rotateSecret(ctx context.Context, id string, r client.SecretRotation) (client.SecretRotated, error) {
	if s.isOperator {
		return s.RotateOperatorSubscriptionSecret(ctx, id, r, s.keepBody())
	}
	return s.RotateSubscriptionSecret(ctx, s.tenant, id, r, s.keepBody())
}

func (s *session) startReplay(ctx context.Context, id string, r client.SubscriptionReplay) (client.ReplayStarted, error) {
	if s.isOperator {
		return s.ReplayOperatorSubscription(ctx, id, r, s.keepBody())
	}
	return s.ReplaySubscription(ctx, s.tenant, id, r, s.keepBody())
}

func (s *session) getReplay(ctx context.Context, subscription, id string) (client.Replay, error) {
	if s.isOperator {
		return s.GetOperatorSubscriptionReplay(ctx, subscription, id, s.keepBody())
	}
	return s.GetReplay(ctx, s.tenant, subscription, id, s.keepBody())
}

func (s *session) cancelReplay(ctx context.Context, subscription, id string) (client.Replay, error) {
	if s.isOperator {
		return s.CancelOperatorSubscriptionReplay(ctx, subscription, id, s.keepBody())
	}
	return s.CancelReplay(ctx, s.tenant, subscription, id, s.keepBody())
}

func (s *session) listReplays(ctx context.Context, subscription string, of client.ListReplaysParams) (client.ReplayPage, error) {
	if s.isOperator {
		return s.ListOperatorSubscriptionReplays(ctx, subscription, converted[client.ListOperatorSubscriptionReplaysParams](of),
			s.keepBody())
	}
	return s.ListReplays(ctx, s.tenant, subscription, of, s.keepBody())
}
