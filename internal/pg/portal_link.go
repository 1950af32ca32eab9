package pg

import (
	"context"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/portallink"
)

// portalLinkRecord is the part of a link to the portal that audit entries show.
type portalLinkRecord struct {
	Scope     string    `json:"scope"`
	ExpiresAt time.Time `json:"expires_at"`
	ReadOnly  bool      `json:"read_only"`

	MaxEndpoints int `json:"max_endpoints"`
}

// RecordPortalLink writes the audit entry of a new link to the portal. Nothing else of the link
// is stored. It fails as a change of the tenant does: KindConflict if the tenant is closed.
func (db *DB) RecordPortalLink(ctx context.Context, by eventhook.Actor, l portallink.Link) error {
	return db.mutate(ctx, "create portal link", by, l.TenantID, func(m *mutation) error {
		_, err := m.record("portal_link.created", resource{"portal_link", l.ID.String(), l.Scope}, nil,
			portalLinkRecord{l.Scope, l.ExpiresAt, l.IsReadOnly, l.MaxEndpoints})
		return err
	})
}
