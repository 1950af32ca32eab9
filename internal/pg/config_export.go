package pg

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// TenantConfig returns the whole configuration of a tenant from one snapshot, or KindNotFound:
// sources in the order of their slugs, the routes of each in the order of evaluation,
// subscriptions in the order of their names, and secrets in plain text. It fails if a secret
// does not open. It locks nothing.
func (db *DB) TenantConfig(ctx context.Context, slug string) (c eventhook.TenantConfig, err error) {
	err = db.inSnapshot(ctx, "read configuration", func(tx pgx.Tx) error {
		if c.Tenant, err = findTenant(ctx, tx, slug); err != nil {
			return err
		}
		sources, err := db.sourcesOf(ctx, tx, c.ID)
		if err != nil {
			return err
		}
		routes, err := db.routesOf(ctx, tx, c.ID)
		for _, s := range sources {
			if s.Verifier.IsZero() {
				return fmt.Errorf("no configured encryption key opens the verifier of source %s/%s", s.TenantSlug, s.Slug)
			}
			for _, r := range routes[s.ID] {
				if r.SecretsLost {
					return fmt.Errorf("no configured encryption key opens the secrets of the targets of route %s/%s/%s", s.TenantSlug, s.Slug, r.Name)
				}
			}
			c.Sources = append(c.Sources, eventhook.SourceConfig{Source: s, Routes: routes[s.ID]})
		}
		if err != nil {
			return err
		}
		c.Subscriptions, err = db.subscriptionsOf(ctx, tx, c.ID, "")
		slices.SortStableFunc(c.Subscriptions, func(x, y eventhook.Subscription) int { return strings.Compare(x.Name, y.Name) })
		for _, s := range c.Subscriptions {
			if s.SecretsLost {
				return fmt.Errorf("no configured encryption key opens the secrets of subscription %s/%s", s.TenantSlug, s.Name)
			}
		}
		return err
	})
	return c, err
}

// inSnapshot runs read in a read-only transaction that sees the database at one moment.
func (db *DB) inSnapshot(ctx context.Context, act string, read func(pgx.Tx) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return translate(act, pgx.BeginTxFunc(ctx, db.work, options, read))
}

// findTenant reads a tenant by its unique slug.
func findTenant(ctx context.Context, tx pgx.Tx, slug string) (eventhook.Tenant, error) {
	t, err := scanTenant(tx.QueryRow(ctx, `SELECT `+tenantColumns+` FROM eventhook.tenant WHERE slug = $1`, slug))
	return t, notFound(err, "tenant")
}

// sourcesOf reads all sources of a tenant, by the unique index on their slugs. A source that
// cannot be unsealed has no verifier.
func (db *DB) sourcesOf(ctx context.Context, tx pgx.Tx, tenant eventhook.TenantID) ([]eventhook.Source, error) {
	rows, err := tx.Query(ctx, `SELECT `+sourceColumns+sourceTables+` WHERE s.tenant_id = $1 ORDER BY s.slug`, [16]byte(tenant))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (eventhook.Source, error) {
		s, _, err := db.scanSourcePartly(r)
		return s, err
	})
}

// routesOf reads all routes of a tenant by their source, in the order of evaluation, by the
// index on source and priority.
func (db *DB) routesOf(ctx context.Context, tx pgx.Tx, tenant eventhook.TenantID) (map[eventhook.SourceID][]eventhook.Route, error) {
	rows, err := tx.Query(ctx, `SELECT `+routeColumns+` FROM eventhook.route
		WHERE source_id IN (SELECT id FROM eventhook.source WHERE tenant_id = $1) ORDER BY priority DESC, id`, [16]byte(tenant))
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, db.scanRoute)
	bySource := map[eventhook.SourceID][]eventhook.Route{}
	for _, r := range list {
		bySource[r.SourceID] = append(bySource[r.SourceID], r)
	}
	return bySource, err
}
