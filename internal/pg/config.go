package pg

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

const sourceColumns = `s.id, s.tenant_id, t.slug, t.status, s.slug, s.name, s.provider, s.verifier, s.secrets_count, s.settings, s.is_enabled, s.created_at, l.secret`

const sourceTables = ` FROM eventhook.source s JOIN eventhook.tenant t ON t.id = s.tenant_id
LEFT JOIN eventhook.learned_secret l ON l.source_id = s.id`

// FindSource returns a source by its tenant's slug and its own, with its
// verifier unsealed, whatever its and its tenant's state; or KindNotFound.
func (db *DB) FindSource(ctx context.Context, tenant, source string) (eventhook.Source, error) {
	row := db.work.QueryRow(ctx, `SELECT `+sourceColumns+sourceTables+`
		WHERE t.slug = $1 AND s.slug = $2`, tenant, source)
	s, err := db.scanSource(row)
	return s, translate("find source", notFound(err, "source"))
}

func (db *DB) scanSource(row pgx.Row) (s eventhook.Source, err error) {
	var status, sealed string
	var learned *string
	var settings []byte
	err = row.Scan((*[16]byte)(&s.ID), (*[16]byte)(&s.TenantID), &s.TenantSlug, &status, &s.Slug, &s.Name, &s.Provider,
		&sealed, &s.SecretsCount, &settings, &s.IsEnabled, &s.CreatedAt, &learned)
	if err != nil {
		return s, err
	}
	if learned != nil {
		secret, err := db.sealer.Open(*learned)
		if err != nil {
			return s, fmt.Errorf("open the learned secret of source %s/%s: %w", s.TenantSlug, s.Slug, err)
		}
		s.LearnedSecrets = []eventhook.Secret{eventhook.NewSecret(secret)}
	}
	s.TenantStatus = eventhook.TenantStatus(status)
	verifier, err := db.sealer.Open(sealed)
	if err != nil {
		return s, fmt.Errorf("open the verifier of source %s/%s: %w", s.TenantSlug, s.Slug, err)
	}
	s.Verifier = eventhook.NewSecret(verifier)
	return s, json.Unmarshal(settings, &s.SourceSettings)
}

// SourceRouting returns the routes of a source, none if the source is gone.
func (db *DB) SourceRouting(ctx context.Context, source eventhook.SourceID) (eventhook.RetryPolicy, []eventhook.Route, error) {
	var settings []byte
	err := db.work.QueryRow(ctx, `SELECT settings FROM eventhook.source WHERE id = $1`, [16]byte(source)).Scan(&settings)
	if err != nil {
		if err = notFound(err, "source"); eventhook.KindOf(err) == eventhook.KindNotFound {
			return eventhook.RetryPolicy{}, nil, nil
		}
		return eventhook.RetryPolicy{}, nil, translate("read routing", err)
	}
	var s eventhook.SourceSettings
	if err := json.Unmarshal(settings, &s); err != nil {
		return s.Retry, nil, fmt.Errorf("read routing: %w", err)
	}
	rows, err := db.work.Query(ctx, `SELECT `+routeColumns+` FROM eventhook.route
		WHERE source_id = $1 AND is_enabled ORDER BY priority DESC, id`, [16]byte(source))
	if err != nil {
		return s.Retry, nil, translate("read routing", err)
	}
	routes, err := pgx.CollectRows(rows, scanRoute)
	return s.Retry, routes, translate("read routing", err)
}

const routeColumns = `id, tenant_id, source_id, name, priority, is_enabled, filter_event_types, targets, created_at`

func scanRoute(row pgx.CollectableRow) (r eventhook.Route, err error) {
	var targets []byte
	err = row.Scan((*[16]byte)(&r.ID), (*[16]byte)(&r.TenantID), (*[16]byte)(&r.SourceID), &r.Name, &r.Priority, &r.IsEnabled,
		&r.FilterEventTypes, &targets, &r.CreatedAt)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(targets, &r.Targets)
}

const tenantColumns = `id, slug, name, status, created_at`

func scanTenant(row pgx.Row) (t eventhook.Tenant, err error) {
	var status string
	err = row.Scan((*[16]byte)(&t.ID), &t.Slug, &t.Name, &status, &t.CreatedAt)
	t.Status = eventhook.TenantStatus(status)
	return t, err
}

// Tenant returns a tenant by its slug, or KindNotFound.
func (db *DB) Tenant(ctx context.Context, slug string) (eventhook.Tenant, error) {
	t, err := scanTenant(db.work.QueryRow(ctx, `SELECT `+tenantColumns+` FROM eventhook.tenant WHERE slug = $1`, slug))
	return t, translate("find tenant", notFound(err, "tenant"))
}

const keyColumns = `k.id, k.tenant_id, k.name, k.prefix, k.scopes, k.expires_at, k.created_at`

func scanKey(row pgx.Row, more ...any) (k eventhook.APIKey, err error) {
	var scopes []string
	dest := append([]any{(*[16]byte)(&k.ID), (*[16]byte)(&k.TenantID), &k.Name, &k.Prefix, &scopes, &k.ExpiresAt, &k.CreatedAt}, more...)
	err = row.Scan(dest...)
	for _, s := range scopes {
		k.Scopes = append(k.Scopes, eventhook.Scope(s))
	}
	return k, err
}

// KeyByHash returns the key with a hash and the slug of its tenant, or
// KindUnauthorized if there is none, it has expired, or its tenant is closed.
// Unique index.
func (db *DB) KeyByHash(ctx context.Context, hash []byte) (k eventhook.APIKey, tenant string, err error) {
	row := db.work.QueryRow(ctx, `SELECT `+keyColumns+`, t.slug FROM eventhook.api_key k JOIN eventhook.tenant t ON t.id = k.tenant_id
		WHERE k.hash = $1 AND (k.expires_at IS NULL OR k.expires_at > $2) AND t.status <> 'closed'`, hash, db.now())
	k, err = scanKey(row, &tenant)
	if eventhook.KindOf(notFound(err, "key")) == eventhook.KindNotFound {
		return k, "", &eventhook.Error{Kind: eventhook.KindUnauthorized, Message: "the API key is not valid"}
	}
	return k, tenant, translate("find key", err)
}

// AddKey stores a key's hash; the key itself is never stored.
func (db *DB) AddKey(ctx context.Context, k eventhook.APIKey, hash []byte) (eventhook.APIKey, error) {
	scopes := make([]string, len(k.Scopes))
	for i, s := range k.Scopes {
		scopes[i] = string(s)
	}
	k.ID, k.CreatedAt = eventhook.NewID[eventhook.APIKey](db.now()), db.now()
	_, err := db.work.Exec(ctx, `INSERT INTO eventhook.api_key (id, tenant_id, name, prefix, hash, scopes, expires_at, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		[16]byte(k.ID), [16]byte(k.TenantID), k.Name, k.Prefix, hash, scopes, k.ExpiresAt, k.CreatedAt)
	return k, translate("add key", err)
}

// Keys lists a tenant's keys, newest first.
func (db *DB) Keys(ctx context.Context, tenant eventhook.TenantID, before eventhook.KeyID, limit int) ([]eventhook.APIKey, error) {
	rows, err := db.lists.Query(ctx, `SELECT `+keyColumns+` FROM eventhook.api_key k
		WHERE k.tenant_id = $1 AND ($2::uuid IS NULL OR k.id < $2) ORDER BY k.id DESC LIMIT $3`, [16]byte(tenant), uuidArg(before), limit)
	if err != nil {
		return nil, translate("list keys", err)
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (eventhook.APIKey, error) { return scanKey(r) })
	return list, translate("list keys", err)
}

// DeleteKey forgets a key; it is refused from then on.
func (db *DB) DeleteKey(ctx context.Context, tenant eventhook.TenantID, id eventhook.KeyID) error {
	tag, err := db.work.Exec(ctx, `DELETE FROM eventhook.api_key WHERE id = $1 AND tenant_id = $2`, [16]byte(id), [16]byte(tenant))
	if err == nil && tag.RowsAffected() == 0 {
		return eventhook.NotFound("key")
	}
	return translate("delete key", err)
}

// AddTenant makes a tenant. A slug that is taken is a KindConflict.
func (db *DB) AddTenant(ctx context.Context, t eventhook.Tenant) (eventhook.Tenant, error) {
	t.ID, t.CreatedAt, t.Status = eventhook.NewID[eventhook.Tenant](db.now()), db.now(), eventhook.TenantActive
	_, err := db.work.Exec(ctx, `INSERT INTO eventhook.tenant (id, slug, name, status, created_at) VALUES ($1, $2, $3, $4, $5)`,
		[16]byte(t.ID), t.Slug, t.Name, string(t.Status), t.CreatedAt)
	if hasCode(err, codeUniqueViolation) {
		return t, &eventhook.Error{Kind: eventhook.KindConflict, Message: fmt.Sprintf("the tenant slug %q is taken", t.Slug)}
	}
	return t, translate("add tenant", err)
}

// Tenants lists all tenants, newest first.
func (db *DB) Tenants(ctx context.Context, before eventhook.TenantID, limit int) ([]eventhook.Tenant, error) {
	rows, err := db.lists.Query(ctx, `SELECT `+tenantColumns+` FROM eventhook.tenant
		WHERE ($1::uuid IS NULL OR id < $1) ORDER BY id DESC LIMIT $2`, uuidArg(before), limit)
	if err != nil {
		return nil, translate("list tenants", err)
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (eventhook.Tenant, error) { return scanTenant(r) })
	return list, translate("list tenants", err)
}
