package pg

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

const tenantColumns = `id, slug, name, status, version, max_events_per_day, max_storage_bytes, created_at, updated_at`

func scanTenant(row pgx.Row) (t eventhook.Tenant, err error) {
	var status string
	err = row.Scan((*[16]byte)(&t.ID), &t.Slug, &t.Name, &status, &t.Version, &t.Quota.MaxEventsPerDay, &t.Quota.MaxStorageBytes, &t.CreatedAt, &t.UpdatedAt)
	t.Status = eventhook.TenantStatus(status)
	return t, err
}

// tenantRecord is the part of a tenant that audit entries show.
type tenantRecord struct {
	Slug            string                 `json:"slug"`
	Name            string                 `json:"name"`
	Status          eventhook.TenantStatus `json:"status"`
	MaxEventsPerDay *int64                 `json:"max_events_per_day,omitempty"`
	MaxStorageBytes *int64                 `json:"max_storage_bytes,omitempty"`
}

func recordOfTenant(t eventhook.Tenant) tenantRecord {
	return tenantRecord{t.Slug, t.Name, t.Status, t.Quota.MaxEventsPerDay, t.Quota.MaxStorageBytes}
}

func resourceOfTenant(t eventhook.Tenant) resource { return resource{"tenant", t.ID.String(), t.Slug} }

// Tenant returns a tenant by its slug, or KindNotFound. Unique index.
func (db *DB) Tenant(ctx context.Context, slug string) (eventhook.Tenant, error) {
	t, err := scanTenant(db.work.QueryRow(ctx, `SELECT `+tenantColumns+` FROM eventhook.tenant WHERE slug = $1`, slug))
	return t, translate("find tenant", notFound(err, "tenant"))
}

// Tenants lists all tenants, newest first, except the operator tenant. Primary key.
func (db *DB) Tenants(ctx context.Context, before eventhook.TenantID, limit int) ([]eventhook.Tenant, error) {
	rows, err := db.lists.Query(ctx, `SELECT `+tenantColumns+` FROM eventhook.tenant
		WHERE id < $1 AND id <> `+operatorID+` ORDER BY id DESC LIMIT $2`, cursorArg(before), limit)
	if err != nil {
		return nil, translate("list tenants", err)
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (eventhook.Tenant, error) { return scanTenant(r) })
	return list, translate("list tenants", err)
}

// newTenant returns t as a new, active tenant.
func newTenant(t eventhook.Tenant, now time.Time) eventhook.Tenant {
	t.ID, t.Status, t.Version, t.CreatedAt, t.UpdatedAt = eventhook.NewID[eventhook.Tenant](now), eventhook.TenantActive, 1, now, now
	return t
}

// CreateTenant creates an active tenant. The error is KindConflict if the slug is in use.
func (db *DB) CreateTenant(ctx context.Context, by eventhook.Actor, t eventhook.Tenant) (eventhook.Tenant, error) {
	t = newTenant(t, db.now())
	m := &mutation{db: db, by: by, tenant: t}
	return t, m.run(ctx, "add tenant", func() error { return m.insertTenant(ctx) })
}

func (m *mutation) insertTenant(ctx context.Context) error {
	t := m.tenant
	err := m.exec(ctx, `INSERT INTO eventhook.tenant (id, slug, name, status, max_events_per_day, max_storage_bytes, created_at, updated_at)
		VALUES (@id, @slug, @name, @status, @max_events_per_day, @max_storage_bytes, @created_at, @created_at)`,
		pgx.StrictNamedArgs{"id": [16]byte(t.ID), "slug": t.Slug, "name": t.Name, "status": string(t.Status),
			"max_events_per_day": t.Quota.MaxEventsPerDay, "max_storage_bytes": t.Quota.MaxStorageBytes, "created_at": t.CreatedAt})
	if err != nil {
		return nameTaken(err, "The tenant slug %q is taken.", t.Slug)
	}
	_, err = m.record("tenant.created", resourceOfTenant(t), nil, recordOfTenant(t))
	return err
}

// UpdateTenant updates a tenant in one transaction. change receives the current tenant and
// returns the wanted one; it can neither change the slug nor close the tenant. A version other
// than 0 must be the current one, otherwise the error is ErrStale. The error is KindConflict
// if the tenant is closed. change must not block, since other transactions wait for the
// tenant.
func (db *DB) UpdateTenant(ctx context.Context, by eventhook.Actor, slug string, version int64, change func(eventhook.Tenant) (eventhook.Tenant, error)) (t eventhook.Tenant, err error) {
	m := &mutation{db: db, by: by}
	err = m.run(ctx, "change tenant", func() error {
		if m.tenant, err = lockTenant(ctx, m.tx, slug); err != nil {
			return err
		}
		if err := checkMutable(m.tenant, by); err != nil {
			return err
		}
		if err := checkVersion(version, m.tenant.Version); err != nil {
			return err
		}
		want, err := change(m.tenant)
		if err != nil {
			return err
		}
		return m.updateTenant(ctx, want)
	})
	return m.tenant, err
}

func lockTenant(ctx context.Context, tx pgx.Tx, slug string) (eventhook.Tenant, error) {
	t, err := scanTenant(tx.QueryRow(ctx, `SELECT `+tenantColumns+` FROM eventhook.tenant WHERE slug = $1 FOR UPDATE`, slug))
	return t, notFound(err, "tenant")
}

// updateTenant stores the wanted state of the tenant. The caller holds the lock of the tenant.
func (m *mutation) updateTenant(ctx context.Context, want eventhook.Tenant) error {
	have := m.tenant
	changed, err := m.record(tenantAction(have, want), resourceOfTenant(have), recordOfTenant(have), recordOfTenant(want))
	if err != nil || !changed {
		return err
	}
	want.Version, want.UpdatedAt = want.Version+1, m.db.now()
	m.tenant = want
	err = m.exec(ctx, `UPDATE eventhook.tenant SET name = @name, status = @status, max_events_per_day = @max_events_per_day,
		max_storage_bytes = @max_storage_bytes, version = @version, updated_at = @updated_at WHERE id = @id`,
		pgx.StrictNamedArgs{"id": [16]byte(want.ID), "name": want.Name, "status": string(want.Status),
			"max_events_per_day": want.Quota.MaxEventsPerDay, "max_storage_bytes": want.Quota.MaxStorageBytes,
			"version": want.Version, "updated_at": want.UpdatedAt})
	return err
}

func tenantAction(have, want eventhook.Tenant) string {
	switch {
	case have.Status == want.Status:
		return "tenant.updated"
	case want.Status == eventhook.TenantSuspended:
		return "tenant.suspended"
	case want.Status == eventhook.TenantClosed:
		return "tenant.closed"
	}
	return "tenant.activated"
}

// CloseTenant closes a tenant permanently: it disables its sources and subscriptions and expires
// its API keys. Each of these has a system event and an audit entry, which share the
// correlation id of the closing. CleanUpTenants ends its open work in the background. Stored
// data stays until its retention ends or PurgeTenant deletes it. The error is KindConflict if
// the tenant is closed already.
func (db *DB) CloseTenant(ctx context.Context, by eventhook.Actor, slug string) (t eventhook.Tenant, err error) {
	err = db.retryDeadlocks(func() error {
		m := &mutation{db: db, by: by, correlation: eventhook.NewID[eventhook.Tenant](db.now()).String()}
		err := m.run(ctx, "close tenant", func() error { return m.closeTenant(ctx, slug) })
		t = m.tenant
		return err
	})
	return t, err
}

// closeTenant locks and closes a tenant.
func (m *mutation) closeTenant(ctx context.Context, slug string) (err error) {
	if m.tenant, err = lockTenant(ctx, m.tx, slug); err != nil {
		return err
	}
	if m.tenant.Status == eventhook.TenantClosed {
		return &eventhook.Error{Kind: eventhook.KindConflict, Message: fmt.Sprintf("The tenant %q is closed already.", slug)}
	}
	want := m.tenant
	want.Status = eventhook.TenantClosed
	if err := m.updateTenant(ctx, want); err != nil {
		return err
	}
	if err := m.disableOwned(ctx); err != nil {
		return err
	}
	return m.exec(ctx, nameCleanupSQL, [16]byte(want.ID), m.correlation)
}

// nameCleanupSQL completes the row that the trigger on tenant has inserted, and ends the
// tenant's replays. Lock order: subscriptions, then replays (see recoverLateSQL). Primary key, and
// replay_due.
const nameCleanupSQL = `
WITH cancelled AS (
    UPDATE eventhook.replay SET status = 'cancelled', due_at = NULL, finished_at = now(), lease_token = lease_token + 1
    WHERE tenant_id = $1 AND due_at IS NOT NULL
)
UPDATE eventhook.tenant_cleanup SET correlation_id = $2 WHERE tenant_id = $1`

// disableSourcesSQL disables the sources of a tenant. Index on tenant and id.
const disableSourcesSQL = `
UPDATE eventhook.source SET is_enabled = false, version = version + 1, updated_at = $2
WHERE tenant_id = $1 AND is_enabled
RETURNING id, slug, 'true', to_json(is_enabled)::text`

// disableSubscriptionsSQL disables the subscriptions of a tenant. Subscriptions that
// failures have disabled are not held and probed any more; it does not return them. Index on tenant and id.
const disableSubscriptionsSQL = `
WITH before AS MATERIALIZED (
    SELECT id, status FROM eventhook.subscription WHERE tenant_id = $1 AND (status <> 'disabled' OR disabled_by = 'failures') ORDER BY id FOR NO KEY UPDATE
), disabled AS (
    UPDATE eventhook.subscription s SET status = 'disabled', disabled_reason = 'the tenant was closed', disabled_by = 'tenant', version = version + 1, updated_at = $2
    FROM before WHERE s.id = before.id
    RETURNING s.id, s.name, before.status AS was, s.status
)
SELECT id, name, to_json(was)::text, to_json(status)::text FROM disabled WHERE was <> 'disabled'`

// expireKeysSQL expires the API keys of a tenant. Index api_key_tenant, then primary key.
const expireKeysSQL = `
WITH valid AS MATERIALIZED (
    SELECT id, expires_at FROM eventhook.api_key
    WHERE tenant_id = $1 AND (expires_at IS NULL OR expires_at > $2) FOR UPDATE
)
UPDATE eventhook.api_key k SET expires_at = $2 FROM valid WHERE k.id = valid.id
RETURNING k.id, k.name, coalesce(to_json(valid.expires_at), 'null')::text, to_json(k.expires_at)::text`

// disableOwned disables the tenant's sources and subscriptions and expires its keys.
func (m *mutation) disableOwned(ctx context.Context) error {
	for _, end := range []struct{ sql, action, kind, field string }{
		{disableSourcesSQL, "source.disabled_via_tenant_cascade", "source", "is_enabled"},
		{disableSubscriptionsSQL, "webhook.disabled_via_tenant_cascade", "subscription", "status"},
		{expireKeysSQL, "api_key.revoked_via_tenant_cascade", "api_key", "expires_at"},
	} {
		rows, err := m.tx.Query(ctx, end.sql, [16]byte(m.tenant.ID), m.db.now())
		if err != nil {
			return err
		}
		var id eventhook.ID[resource]
		var name, from, to string
		_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &name, &from, &to}, func() error {
			m.recordChanges(end.action, resource{end.kind, id.String(), name},
				[]eventhook.FieldChange{{Field: end.field, From: []byte(from), To: []byte(to)}})
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

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
