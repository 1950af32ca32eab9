package main

import (
	"context"
	"encoding/json"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/route"
)

var _ api.Configuration = configuration{}

// configuration applies and exports the configuration of tenants for the API.
type configuration struct {
	config configs.Config
	db     *pg.DB
	routes routeExplainer
}

// ReadConfiguration implements api.Configuration. The expressions of a tenant are compiled in its
// share of processor time, as if it had written each route alone.
func (c configuration) ReadConfiguration(ctx context.Context, tenant eventhook.TenantID,
	raw []byte) ([]eventhook.TenantConfig, eventhook.Faults, error) {
	return configs.ReadTenants(raw, func(r eventhook.Route) (eventhook.Faults, error) {
		if tenant.IsZero() { // the operator
			return route.Check(ctx, tenant, r)
		}
		return c.routes.CheckRoute(ctx, tenant, r)
	})
}

// ApplyConfiguration implements api.Configuration. It refuses URLs that the configuration of the
// gateway does not allow.
func (c configuration) ApplyConfiguration(ctx context.Context, by eventhook.Actor, t eventhook.TenantConfig,
	o api.ApplyOptions) ([]eventhook.Change, error) {
	if err := checkTenants(c.config, []eventhook.TenantConfig{t}); err != nil {
		return nil, err
	}
	return c.db.ApplyTenant(ctx, by, t, pg.ApplyOptions{DryRun: o.DryRun, Prune: o.Prune})
}

// ExportConfiguration implements api.Configuration.
func (c configuration) ExportConfiguration(ctx context.Context, o api.ExportOptions) (json.RawMessage, error) {
	tenants, err := tenantConfigs(ctx, c.db, o.Slugs)
	if err != nil {
		return nil, err
	}
	for i := range tenants {
		if o.WithoutQuotas {
			tenants[i].Quota = eventhook.Quota{}
		}
	}
	return configs.NewExporter().ExportJSON(tenants)
}
