package cli

import (
	"cmp"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
)

const allTenants = "all-tenants"

// addAllTenants defines the flag of a list that the admin key can also read for all tenants.
func addAllTenants(cmd *cobra.Command) {
	cmd.Flags().Bool(allTenants, false, "list the items of all tenants; requires the admin key")
}

// isOfAllTenants reports whether the flag is set. EVENTHOOK_TENANT does not count then.
func isOfAllTenants(cmd *cobra.Command) bool {
	isSet, _ := cmd.Flags().GetBool(allTenants) // fails only for a command without the flag
	return isSet
}

// listAllEvents prints the events of all tenants.
func (s *session) listAllEvents(cmd *cobra.Command, f *listFlags, of client.ListEventsParams) error {
	params := converted[client.ListAllEventsParams](of)
	return printList(s, f, func(limit *int64, cursor *string) ([]tenantItem[client.Event], *string, error) {
		params.Limit, params.Cursor = limit, cursor
		p, err := s.ListAllEvents(cmd.Context(), params, s.keepBody())
		return tenantItems[client.Event](p.Items), p.NextCursor, err
	}, ofTenants(eventColumns))
}

// listAllSubscriptions prints the subscriptions of all tenants and the operator subscriptions.
func (s *session) listAllSubscriptions(cmd *cobra.Command, f *listFlags, of client.ListSubscriptionsParams) error {
	params := converted[client.ListAllSubscriptionsParams](of)
	return printList(s, f, func(limit *int64, cursor *string) ([]tenantItem[client.Subscription], *string, error) {
		params.Limit, params.Cursor = limit, cursor
		p, err := s.ListAllSubscriptions(cmd.Context(), params, s.keepBody())
		return tenantItems[client.Subscription](p.Items), p.NextCursor, err
	}, ofTenants(subscriptionColumns))
}

// listDeliveriesOfTenants prints deliveries with their tenants: the deliveries of all tenants, or
// those to an operator subscription.
func (s *session) listDeliveriesOfTenants(cmd *cobra.Command, f *listFlags, of client.ListDeliveriesParams) error {
	return printList(s, f, func(limit *int64, cursor *string) ([]tenantItem[client.Delivery], *string, error) {
		of.Limit, of.Cursor = limit, cursor
		var p client.DeliveryOfTenantPage
		var err error
		if s.isOperator {
			p, err = s.ListOperatorSubscriptionDeliveries(cmd.Context(), *of.SubscriptionID,
				converted[client.ListOperatorSubscriptionDeliveriesParams](of), s.keepBody())
		} else {
			p, err = s.ListAllDeliveries(cmd.Context(), converted[client.ListAllDeliveriesParams](of), s.keepBody())
		}
		return tenantItems[client.Delivery](p.Items), p.NextCursor, err
	}, ofTenants(deliveryColumns))
}

// tenantItem is an item in a list of all tenants.
type tenantItem[T any] struct {
	tenant string // slug; "" for an operator subscription
	item   T
}

// tenantItems returns the items of a page. The JSON of an O is that of a T and the tenant.
func tenantItems[T, O any](page []O) []tenantItem[T] {
	tenants, items := converted[[]struct{ Tenant string }](page), converted[[]T](page)
	list := make([]tenantItem[T], len(page))
	for i := range list {
		list[i] = tenantItem[T]{tenants[i].Tenant, items[i]}
	}
	return list
}

// ofTenants returns columns with a column of the tenant before them.
func ofTenants[T any](columns []column[T]) []column[tenantItem[T]] {
	all := []column[tenantItem[T]]{{"TENANT", func(x tenantItem[T]) string { return cmp.Or(x.tenant, "(operator)") }}}
	for _, c := range columns {
		all = append(all, column[tenantItem[T]]{c.title, func(x tenantItem[T]) string { return c.text(x.item) }})
	}
	return all
}

// converted returns a value whose type has members of the same names.
func converted[T any](x any) (to T) {
	raw, err := json.Marshal(x)
	if err == nil {
		err = json.Unmarshal(raw, &to)
	}
	if err != nil {
		panic(err) // both types are generated from the same document
	}
	return to
}
