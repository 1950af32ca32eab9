package api

import (
	"context"
	"slices"
)

// warnOfTenants adds a warning to operator subscriptions for each tenant that they name and that
// does not exist. It is no fault: the tenant may be created later.
func (s *server) warnOfTenants(ctx context.Context, views ...*Subscription) error {
	var named []string
	for _, v := range views {
		named = append(named, v.Tenants...)
	}
	if len(named) == 0 {
		return nil
	}
	unknown, err := s.Admin.UnknownTenants(ctx, named)
	for _, v := range views {
		for _, slug := range v.Tenants {
			if slices.Contains(unknown, slug) {
				v.Warnings = append(v.Warnings,
					"The tenant "+slug+" does not exist: the subscription receives its events when it is created. Check the slug in tenants.")
			}
		}
	}
	return err
}
