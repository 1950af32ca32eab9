package main

import (
	"context"
	"fmt"
	"os"

	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/cli/demo"
	"github.com/eventhook/eventhook/internal/datadir"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/internal/telemetry"
)

// startDemo starts the gateway of the command demo with the configuration
// configs.Demo.
func startDemo(ctx context.Context, dir, allowedCIDR string) (*demo.Gateway, error) {
	c := configs.Default()
	c.DataDir, c.Listen, c.ManagementListen = dir, "127.0.0.1:0", "127.0.0.1:0"
	c.Outbound.AllowedCIDRs = []string{allowedCIDR}
	g, err := newGateway(ctx, c, telemetry.NewLogger(os.Stderr, "error", "text"))
	if err != nil {
		return nil, err
	}
	created, err := applyDemo(ctx, g)
	if err != nil {
		g.close()
		return nil, err
	}
	github, _ := created.Lookup("GITHUB_WEBHOOK_SECRET")
	stripe, _ := created.Lookup("STRIPE_WEBHOOK_SECRET")
	return &demo.Gateway{
		URL: g.config.PublicURL, AdminKey: g.keys.admin[0].Reveal(),
		Secrets: map[string]string{"github": github, "stripe": stripe},
		Run:     g.run,
	}, nil
}

// applyDemo applies configs.Demo and returns the secrets that were generated for it.
func applyDemo(ctx context.Context, g *gateway) (*datadir.Secrets, error) {
	created, err := datadir.OpenSecrets(g.config.DataDir)
	if err != nil {
		return nil, err
	}
	tenants, faults := configs.ParseTenants(configs.Demo, created.Lookup)
	if err := faults.Err("the demo's configuration is not valid"); err != nil {
		return nil, err
	}
	for _, t := range tenants {
		if _, err := g.db.ApplyTenant(ctx, operator, t, pg.ApplyOptions{}); err != nil {
			return nil, fmt.Errorf("apply the demo's configuration: %w", err)
		}
	}
	return created, nil
}
