package pg

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// copiedSource is the content of an eventhook.SourceCopy.
type copiedSource struct {
	ID                eventhook.SourceID     `json:"id"`
	TenantID          eventhook.TenantID     `json:"tenant_id"`
	TenantSlug        string                 `json:"tenant"`
	TenantStatus      eventhook.TenantStatus `json:"tenant_status"`
	Slug              string                 `json:"slug"`
	Name              string                 `json:"name"`
	Provider          string                 `json:"provider,omitempty"`
	IsEnabled         bool                   `json:"is_enabled"`
	Version           int64                  `json:"version"`
	SecretRevealed    bool                   `json:"secret_revealed,omitempty"`
	HandshakeOpenedAt time.Time              `json:"handshake_opened_at"`
	SecretsCount      int                    `json:"secrets_count"`
	Sealed            string                 `json:"sealed"`
	Learned           *string                `json:"learned,omitempty"`
	Settings          json.RawMessage        `json:"settings"`
	consumed
}

// SourceCopies returns at most limit sources of all tenants whose ids are greater than after, in the
// order of their ids. Primary key.
func (db *DB) SourceCopies(ctx context.Context, after eventhook.SourceID, limit int) ([]eventhook.SourceCopy, error) {
	return db.sourceCopies(ctx, `WHERE s.id > $1 ORDER BY s.id LIMIT $2`, [16]byte(after), limit)
}

// SourceCopiesOf returns a tenant's sources, or one of them if slug is not "". Unique indexes.
func (db *DB) SourceCopiesOf(ctx context.Context, tenant, slug string) ([]eventhook.SourceCopy, error) {
	return db.sourceCopies(ctx, `WHERE t.slug = $1 AND ($2 = '' OR s.slug = $2)`, tenant, slug)
}

func (db *DB) sourceCopies(ctx context.Context, where string, args ...any) ([]eventhook.SourceCopy, error) {
	rows, err := db.work.Query(ctx, `SELECT `+sourceColumns+sourceTables+` `+where, args...)
	if err != nil {
		return nil, translate("copy sources", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c eventhook.SourceCopy, err error) {
		r, err := scanSourceRow(row)
		if err != nil {
			return c, err
		}
		s := r.Source
		value, err := json.Marshal(copiedSource{s.ID, s.TenantID, s.TenantSlug, s.TenantStatus, s.Slug, s.Name, s.Provider, s.IsEnabled, s.Version,
			s.SecretRevealed, s.HandshakeOpenedAt.UTC(), s.SecretsCount, r.Sealed, r.Learned, r.Settings, r.consumed})
		return eventhook.SourceCopy{ID: s.ID, Tenant: s.TenantSlug, Slug: s.Slug, Value: value}, err
	})
	return list, translate("copy sources", err)
}

// OpenSourceCopy returns the source of an eventhook.SourceCopy, as FindSource does, without using the database. It
// has no quota, and fails if a secret does not open.
func (db *DB) OpenSourceCopy(value []byte) (eventhook.Source, error) {
	var c copiedSource
	if err := json.Unmarshal(value, &c); err != nil {
		return eventhook.Source{}, fmt.Errorf("read the copy of a source: %w", err)
	}
	s, unopened, err := db.openSource(sourceRow{Source: eventhook.Source{ID: c.ID, TenantID: c.TenantID, TenantSlug: c.TenantSlug, TenantStatus: c.TenantStatus,
		Slug: c.Slug, Name: c.Name, Provider: c.Provider, IsEnabled: c.IsEnabled, Version: c.Version, SecretRevealed: c.SecretRevealed,
		HandshakeOpenedAt: c.HandshakeOpenedAt, SecretsCount: c.SecretsCount}, Sealed: c.Sealed, Learned: c.Learned, Settings: c.Settings, consumed: c.consumed})
	if err == nil {
		err = unopened
	}
	return s, err
}
