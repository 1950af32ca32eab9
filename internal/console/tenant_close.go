package console

import (
	"context"
	"net/http"

	"github.com/eventhook/eventhook/client"
)

func (c *Console) closeTenant(r *request) (view, error) {
	return c.endTenant(r, r.api.CloseTenant, "The tenant is closed. Its open work is being ended in the background.")
}

func (c *Console) purgeTenant(r *request) (view, error) {
	return c.endTenant(r, r.api.PurgeTenant, "The data of the tenant is being deleted in the background.")
}

// tenantAct is an operation of the API on a tenant.
type tenantAct func(ctx context.Context, slug string, options ...client.CallOption) (client.Tenant, error)

// endTenant does what cannot be undone, if the person has typed the slug of the tenant.
func (c *Console) endTenant(r *request, act tenantAct, notice string) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	f := r.formOf(nil, "slug")
	if f.Get("slug") != r.tenant {
		f.Faults["slug"] = "is not " + r.tenant + "; nothing was changed"
		return c.showTenant(r, nil, f, http.StatusUnprocessableEntity)
	}
	if _, err := act(r.detached(), r.tenant); err != nil {
		return view{}, err
	}
	return redirect(tenantPath(r.tenant), notice)
}
