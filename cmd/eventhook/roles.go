package main

import (
	"github.com/eventhook/eventhook/configs"
)

// forRoles returns a configuration without the parts that the roles of the instance do not use.
// Without RoleRoute, ingest stores events as due now instead of leased to this instance, and
// without RoleDispatch, deliveries are stored as due now. Instances with these roles are notified.
func forRoles(c configs.Config) configs.Config {
	if !c.HasRole(configs.RoleRoute) {
		c.Route.Workers = 0
	}
	if !c.HasRole(configs.RoleDispatch) {
		c.Outbound.Dispatch.SendsAtOnce = 0
	}
	if c.HasRole(configs.RoleAPI) || c.HasRole(configs.RoleConsole) {
		return c
	}
	c.Database.ListConns = 1 // for metrics
	if !c.HasRole(configs.RoleIngest) {
		c.Database.AcceptConns = 1 // never opened
	}
	return c
}

// info returns the description of the instance at /info.
func (g *gateway) info() map[string]any {
	info := map[string]any{"name": "eventhook", "version": version, "instance": g.db.Instance().String(), "roles": g.config.Roles}
	if g.certificate != nil {
		info["tls_certificate_expires_at"] = g.certificate.ExpiresAt().UTC()
	}
	return info
}
