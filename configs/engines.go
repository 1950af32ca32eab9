package configs

import (
	"fmt"

	"github.com/eventhook/eventhook"
)

// CheckTargets returns an error that lists the targets of routes for which check returns an error, each
// with that error.
func CheckTargets(tenants []eventhook.TenantConfig, check func(eventhook.Target) error) error {
	var f eventhook.Faults
	for _, t := range tenants {
		for _, s := range t.Sources {
			for _, r := range s.Routes {
				for i, target := range r.Targets {
					if err := check(target); err != nil {
						f.Add(fmt.Sprintf("%s/%s/%s.targets[%d]", t.Slug, s.Source.Slug, r.Name, i), "%s", err)
					}
				}
			}
		}
	}
	return f.Err(errNotValid)
}
