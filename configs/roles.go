package configs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// The roles of an instance. Each role has a part of the work, so that it can be scaled and can
// fail on its own.
const (
	RoleIngest   = "ingest"   // accepts webhooks
	RoleAPI      = "api"      // serves the API and its pages
	RoleRoute    = "route"    // plans events: matches them against routes and subscriptions
	RoleDispatch = "dispatch" // sends deliveries, recovers, replays, expires, and maintains the database
	RoleConsole  = "console"  // serves the web console and the portal
)

// Roles returns all roles.
func Roles() []string { return []string{RoleIngest, RoleAPI, RoleRoute, RoleDispatch, RoleConsole} }

// HasRole reports whether the instance has a role.
func (c Config) HasRole(role string) bool { return slices.Contains(c.Roles, role) }

func (c Config) validateRoles(f *eventhook.Faults) {
	known := strings.Join(Roles(), ", ")
	if len(c.Roles) == 0 {
		f.Add("roles", "is empty, want one or more of %s", known)
	}
	for i, role := range c.Roles {
		if !slices.Contains(Roles(), role) {
			f.Add(fmt.Sprintf("roles[%d]", i), "%q is not a role, want one or more of %s", role, known)
		}
	}
}
