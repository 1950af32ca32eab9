package pg

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/session"
)

// RecordRefusal writes the audit entry of a session that was not started. Of a key, it has the name and
// the tenant if the key is stored, for example because it has expired. Unique index of api_key.
func (db *DB) RecordRefusal(ctx context.Context, s session.Session, by eventhook.Actor) error {
	return db.inTx(ctx, "record a refused sign-in", func(tx pgx.Tx) error {
		if s.KeyHash != nil {
			err := tx.QueryRow(ctx, `SELECT k.name, t.slug FROM eventhook.api_key k JOIN eventhook.tenant t ON t.id = k.tenant_id WHERE k.hash = $1`, s.KeyHash).
				Scan(&s.Name, &s.TenantSlug)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			if err != nil {
				return err
			}
		}
		return db.auditWebSession(ctx, tx, session.ActionRefused, s, by)
	})
}

// auditWebSession writes the audit entry of an act on a session of the console. It writes none if the
// tenant no longer exists.
func (db *DB) auditWebSession(ctx context.Context, tx pgx.Tx, action string, s session.Session, by eventhook.Actor) error {
	if s.Kind != session.Console {
		return nil
	}
	by.Type, by.Name, by.Via = eventhook.ActorAdmin, s.Name, string(s.Kind)
	tenant := eventhook.OperatorTenant
	switch {
	case s.TenantSlug != "":
		by.Type = eventhook.ActorKey
		var key *[16]byte
		err := tx.QueryRow(ctx, `SELECT t.id, k.id FROM eventhook.tenant t LEFT JOIN eventhook.api_key k ON k.tenant_id = t.id AND k.hash = $2
			WHERE t.slug = $1`, s.TenantSlug, s.KeyHash).Scan((*[16]byte)(&tenant), &key)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if key != nil {
			by.KeyID = *key
		}
	case s.KeyHash == nil:
		by.Type = eventhook.ActorSession
	}
	id := ""
	if !s.ID.IsZero() {
		id = s.ID.String()
	}
	return db.insertAudit(ctx, tx, by, []eventhook.AuditEntry{{TenantID: tenant, Action: action, ResourceType: "session", ResourceID: id, ResourceName: s.Name,
		TraceID: by.TraceID}})
}
