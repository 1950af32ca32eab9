package main

import (
	"context"
	"encoding/json"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/pg"
)

var _ api.Configuration = configuration{}

// configuration applies and exports the configuration of tenants for the API.
type configuration struct {
	config configs.Config
	db     *pg.DB
}

// ReadConfiguration implements api.Configuration.
func (configuration) ReadConfiguration(raw []byte) ([]eventhook.TenantConfig, eventhook.Faults) {
	return configs.ReadTenants(raw)
}

// ApplyConfiguration implements api.Configuration. It refuses URLs that the configuration of the
// gateway does not allow.
func (c configuration) ApplyConfiguration(ctx context.Context, by eventhook.Actor, t eventhook.TenantConfig, o api.ApplyOptions) ([]eventhook.Change, error) {
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
