package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

const keyColumns = `k.id, k.tenant_id, k.name, k.prefix, k.scopes, k.expires_at, k.last_used_at, k.created_at, k.agent_id`

func scanKey(row pgx.Row, more ...any) (k eventhook.APIKey, err error) {
	var scopes []string
	var agent *[16]byte
	dest := append([]any{(*[16]byte)(&k.ID), (*[16]byte)(&k.TenantID), &k.Name, &k.Prefix, &scopes, &k.ExpiresAt, &k.LastUsedAt, &k.CreatedAt,
		&agent}, more...)
	err = row.Scan(dest...)
	if agent != nil {
		k.AgentID = *agent
	}
	for _, s := range scopes {
		k.Scopes = append(k.Scopes, eventhook.Scope(s))
	}
	return k, err
}

// keyRecord is the part of an API key that audit entries show.
type keyRecord struct {
	Name      string            `json:"name"`
	Prefix    string            `json:"prefix"`
	Scopes    []eventhook.Scope `json:"scopes"`
	ExpiresAt *time.Time        `json:"expires_at,omitempty"`
	AgentID   string            `json:"agent_id,omitempty"`
}

func recordOfKey(k eventhook.APIKey) keyRecord {
	r := keyRecord{Name: k.Name, Prefix: k.Prefix, Scopes: k.Scopes, ExpiresAt: k.ExpiresAt}
	if !k.AgentID.IsZero() {
		r.AgentID = k.AgentID.String()
	}
	return r
}

// KeyByHash returns the API key with a hash, and the id, slug and status of its tenant. The
// error is KindUnauthorized if there is no such key, it has expired, or its tenant is closed.
// Unique index.
func (db *DB) KeyByHash(ctx context.Context, hash []byte) (k eventhook.APIKey, t eventhook.Tenant, err error) {
	row := db.work.QueryRow(ctx, `SELECT `+keyColumns+`, t.slug, t.status, a.labels
		FROM eventhook.api_key k JOIN eventhook.tenant t ON t.id = k.tenant_id LEFT JOIN eventhook.agent a ON a.id = k.agent_id
		WHERE k.hash = $1 AND (k.expires_at IS NULL OR k.expires_at > $2) AND t.status <> 'closed'`, hash, db.now())
	var status string
	var labels []string
	k, err = scanKey(row, &t.Slug, &status, &labels)
	k.AgentLabels = labels
	t.ID, t.Status = k.TenantID, eventhook.TenantStatus(status)
	if eventhook.KindOf(notFound(err, "key")) == eventhook.KindNotFound {
		return k, t, &eventhook.Error{Kind: eventhook.KindUnauthorized, Message: "the API key is not valid"}
	}
	return k, t, translate("find API key", err)
}

// CreateKey stores the hash of an API key; the key itself is never stored. The error is
// KindConflict if the tenant is closed.
func (db *DB) CreateKey(ctx context.Context, by eventhook.Actor, k eventhook.APIKey, hash []byte) (eventhook.APIKey, error) {
	k.ID, k.CreatedAt = eventhook.NewID[eventhook.APIKey](db.now()), db.now()
	return k, db.mutate(ctx, "create key", by, k.TenantID, func(m *mutation) error { return m.createKey(ctx, k, hash) })
}

// createKey inserts a key, which has its id.
func (m *mutation) createKey(ctx context.Context, k eventhook.APIKey, hash []byte) error {
	scopes := make([]string, len(k.Scopes))
	for i, s := range k.Scopes {
		scopes[i] = string(s)
	}
	err := m.exec(ctx, `INSERT INTO eventhook.api_key (id, tenant_id, agent_id, name, prefix, hash, scopes, expires_at, created_at)
		VALUES (@id, @tenant, @agent, @name, @prefix, @hash, @scopes, @expires_at, @created_at)`,
		pgx.StrictNamedArgs{"id": [16]byte(k.ID), "tenant": [16]byte(k.TenantID), "agent": uuidArg(k.AgentID), "name": k.Name,
			"prefix": k.Prefix, "hash": hash, "scopes": scopes, "expires_at": k.ExpiresAt, "created_at": k.CreatedAt})
	if err != nil {
		return err
	}
	_, err = m.record("api_key.created", resource{"api_key", k.ID.String(), k.Name}, nil, recordOfKey(k))
	return err
}

// Keys lists a tenant's API keys, newest first. Index api_key_tenant.
func (db *DB) Keys(ctx context.Context, tenant eventhook.TenantID, before eventhook.KeyID, limit int) ([]eventhook.APIKey, error) {
	rows, err := db.lists.Query(ctx, `SELECT `+keyColumns+` FROM eventhook.api_key k
		WHERE k.tenant_id = $1 AND k.id < $2 ORDER BY k.id DESC LIMIT $3`, [16]byte(tenant), cursorArg(before), limit)
	if err != nil {
		return nil, translate("list keys", err)
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (eventhook.APIKey, error) { return scanKey(r) })
	return list, translate("list keys", err)
}

// DeleteKey deletes an API key. Requests with it are refused from then on. The error is
// KindNotFound if the tenant has no such key. Primary key.
func (db *DB) DeleteKey(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, id eventhook.KeyID) error {
	return db.mutate(ctx, "delete key", by, tenant, func(m *mutation) error {
		k, err := scanKey(m.tx.QueryRow(ctx, `DELETE FROM eventhook.api_key k WHERE k.id = $1 AND k.tenant_id = $2 RETURNING `+keyColumns, [16]byte(id), [16]byte(tenant)))
		if err != nil {
			return notFound(err, "key")
		}
		return m.recordDeletedKey(k)
	})
}

func (m *mutation) recordDeletedKey(k eventhook.APIKey) error {
	_, err := m.record("api_key.deleted", resource{"api_key", k.ID.String(), k.Name}, recordOfKey(k), nil)
	return err
}

// recordKeyUseSQL only moves last_used_at forward. It locks keys in the order of
// their ids, so that all instances lock the rows in the same order and cannot
// deadlock.
const recordKeyUseSQL = `
WITH used AS MATERIALIZED (
    SELECT k.id, u.at FROM unnest($1::uuid[], $2::timestamptz[]) AS u (id, at) JOIN eventhook.api_key k ON k.id = u.id
    WHERE k.last_used_at IS NULL OR k.last_used_at < u.at
    ORDER BY k.id FOR UPDATE OF k
)
UPDATE eventhook.api_key k SET last_used_at = used.at FROM used WHERE k.id = used.id`

// RecordKeyUse stores the time of each key's last use. It ignores keys that do not exist any
// more. Primary key.
func (db *DB) RecordKeyUse(ctx context.Context, used map[eventhook.KeyID]time.Time) error {
	if len(used) == 0 {
		return nil
	}
	var ids [][16]byte
	var moments []time.Time
	for id, at := range used {
		ids, moments = append(ids, id), append(moments, at)
	}
	_, err := db.work.Exec(ctx, recordKeyUseSQL, ids, moments)
	return translate("record the use of keys", err)
}
