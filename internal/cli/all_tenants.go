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
	f := cmd.Flags().Lookup(allTenants)
	return f != nil && f.Value.String() == "true"
}

// listAllEvents prints the events of all tenants.
func (s *session) listAllEvents(cmd *cobra.Command, f *listFlags, of client.ListEventsParams) error {
	params := converted[client.ListAllEventsParams](of)
	return printList(s, f, func(limit *int64, cursor *string) ([]client.EventOfTenant, *string, error) {
		params.Limit, params.Cursor = limit, cursor
		p, err := s.ListAllEvents(cmd.Context(), params, s.keepBody())
		return p.Items, p.NextCursor, err
	}, ofTenants(func(e client.EventOfTenant) string { return e.Tenant }, eventColumns))
}

// listAllSubscriptions prints the subscriptions of all tenants and the operator subscriptions.
func (s *session) listAllSubscriptions(cmd *cobra.Command, f *listFlags, of client.ListSubscriptionsParams) error {
	params := converted[client.ListAllSubscriptionsParams](of)
	return printList(s, f, func(limit *int64, cursor *string) ([]client.SubscriptionOfTenant, *string, error) {
		params.Limit, params.Cursor = limit, cursor
		p, err := s.ListAllSubscriptions(cmd.Context(), params, s.keepBody())
		return p.Items, p.NextCursor, err
	}, ofTenants(func(x client.SubscriptionOfTenant) string { return cmp.Or(textOf(x.Tenant), "(operator)") }, subscriptionColumns))
}

// listDeliveriesOfTenants prints deliveries with their tenants: the deliveries of all tenants, or
// those to an operator subscription.
func (s *session) listDeliveriesOfTenants(cmd *cobra.Command, f *listFlags, of client.ListDeliveriesParams) error {
	return printList(s, f, func(limit *int64, cursor *string) ([]client.DeliveryOfTenant, *string, error) {
		of.Limit, of.Cursor = limit, cursor
		var p client.DeliveryOfTenantPage
		var err error
		if s.isOperator {
			p, err = s.ListOperatorSubscriptionDeliveries(cmd.Context(), *of.SubscriptionID,
				converted[client.ListOperatorSubscriptionDeliveriesParams](of), s.keepBody())
		} else {
			p, err = s.ListAllDeliveries(cmd.Context(), converted[client.ListAllDeliveriesParams](of), s.keepBody())
		}
		return p.Items, p.NextCursor, err
	}, ofTenants(func(d client.DeliveryOfTenant) string { return d.Tenant }, deliveryColumns))
}

// ofTenants returns columns with a column of the tenant before them. The JSON of an O is that of
// a T and the tenant.
func ofTenants[O, T any](tenant func(O) string, columns []column[T]) []column[O] {
	all := []column[O]{{"TENANT", tenant}}
	for _, c := range columns {
		all = append(all, column[O]{c.title, func(x O) string { return c.text(converted[T](x)) }})
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
