package api

import (
	"context"
	"slices"

	"github.com/eventhook/eventhook"
)

// permitGrant does what permit does, for a grant.
func (k *keyring) permitGrant(ctx context.Context, g eventhook.Grant, n requirement) (eventhook.TenantID, error) {
	none := eventhook.TenantID{}
	scopes, hasTenant := g.Tenants[n.tenant]
	switch {
	case g.Customer != nil && !slices.Contains(customerOperations, n.id):
		return none, errNotForCustomers
	case n.isOwn:
		return none, nil
	case g.MayAdminister(n.isRead):
		return k.permitAdmin(ctx, n)
	case g.AdminReadOnly && (n.scope == "" || !hasTenant):
		return none, errReadOnly
	case n.scope == "":
		return none, errAdminOnly
	case len(scopes) == 0 || !eventhook.IsSlug(n.tenant):
		return none, eventhook.NotFound("tenant")
	case !g.Has(n.tenant, n.scope):
		return none, &eventhook.Error{Kind: eventhook.KindForbidden, Message: "The session lacks the scope " + string(n.scope) + "."}
	}
	t, err := k.tenants.Get(ctx, n.tenant)
	switch {
	case err != nil:
		return none, err
	case t.Status == eventhook.TenantClosed:
		return none, eventhook.NotFound("tenant") // as its keys, which are no longer valid
	case t.Status == eventhook.TenantSuspended && n.isChange:
		return none, errSuspended
	}
	return t.ID, nil
}
