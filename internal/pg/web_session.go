package pg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/session"
)

// webSessionData is the part of a session that is stored as JSON.
type webSessionData struct {
	Name       string           `json:"name"`
	KeyHash    []byte           `json:"key_hash,omitempty"`
	Person     *session.Person  `json:"person,omitempty"`
	Grant      *eventhook.Grant `json:"grant,omitempty"`
	TenantSlug string           `json:"tenant_slug,omitempty"`
	Scope      string           `json:"scope,omitempty"`
	ReadOnly   bool             `json:"read_only,omitempty"`
}

func dataOfWebSession(s session.Session) (string, error) {
	raw, err := json.Marshal(webSessionData{s.Name, s.KeyHash, s.Person, s.Grant, s.TenantSlug, s.Scope, s.ReadOnly})
	return eventhook.SanitizeText(string(raw)), err
}

// addWebSessionData sets the members of a session that were stored as JSON.
func addWebSessionData(s *session.Session, raw []byte) error {
	var d webSessionData
	if err := json.Unmarshal(raw, &d); err != nil {
		return fmt.Errorf("web session: %w", err)
	}
	s.Name, s.KeyHash, s.Person, s.Grant, s.TenantSlug, s.Scope, s.ReadOnly = d.Name, d.KeyHash, d.Person, d.Grant, d.TenantSlug, d.Scope, d.ReadOnly
	return nil
}

// createWebSessionSQL stores a session, and deletes the oldest ones of its link beyond
// session.MaxOfLink. Concurrent sessions of a link do not see each other: the next one deletes
// what they left. Index web_session_link, then primary key.
const createWebSessionSQL = `
WITH former AS (
    DELETE FROM eventhook.web_session WHERE token_hash = ANY(ARRAY(
        SELECT token_hash FROM eventhook.web_session WHERE link_id = @link
        ORDER BY created_at DESC, token_hash OFFSET @most - 1 FOR UPDATE SKIP LOCKED))
)
INSERT INTO eventhook.web_session (token_hash, id, kind, data, created_at, last_seen_at, expires_at, link_id)
VALUES (@hash, @id, @kind, @data, @created_at, @last_seen_at, @expires_at, @link)`

// CreateWebSession stores the session of a browser by the hash of its token, with an audit entry. A
// link to the portal keeps its newest session.MaxOfLink sessions.
func (db *DB) CreateWebSession(ctx context.Context, tokenHash []byte, s session.Session, by eventhook.Actor) error {
	data, err := dataOfWebSession(s)
	if err != nil {
		return err
	}
	return db.inTx(ctx, "create a web session", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, createWebSessionSQL, pgx.StrictNamedArgs{"hash": tokenHash, "id": [16]byte(s.ID),
			"kind": string(s.Kind), "data": data, "created_at": s.CreatedAt, "last_seen_at": s.LastSeenAt,
			"expires_at": s.ExpiresAt, "link": uuidArg(s.LinkID()), "most": session.MaxOfLink})
		if err != nil {
			return err
		}
		return db.auditWebSession(ctx, tx, session.ActionStarted, s, by)
	})
}

// WebSession returns the session with the hash of a token, or KindNotFound. Primary key.
func (db *DB) WebSession(ctx context.Context, tokenHash []byte) (s session.Session, err error) {
	var kind string
	var data []byte
	err = db.work.QueryRow(ctx, `SELECT id, kind, data, created_at, last_seen_at, expires_at FROM eventhook.web_session WHERE token_hash = $1`, tokenHash).
		Scan((*[16]byte)(&s.ID), &kind, &data, &s.CreatedAt, &s.LastSeenAt, &s.ExpiresAt)
	if err != nil {
		return s, translate("find a web session", notFound(err, "session"))
	}
	s.Kind = session.Kind(kind)
	return s, addWebSessionData(&s, data)
}

// TouchWebSession records a use of a session. It never moves the time of the last use back.
// Primary key.
func (db *DB) TouchWebSession(ctx context.Context, tokenHash []byte, at time.Time) error {
	_, err := db.work.Exec(ctx, `UPDATE eventhook.web_session SET last_seen_at = $2 WHERE token_hash = $1 AND last_seen_at < $2`, tokenHash, at)
	return translate("record the use of a web session", err)
}

// DeleteWebSession ends a session, with an audit entry. Primary key.
func (db *DB) DeleteWebSession(ctx context.Context, tokenHash []byte, by eventhook.Actor) error {
	return db.inTx(ctx, "delete a web session", func(tx pgx.Tx) error {
		var s session.Session
		var kind string
		var data []byte
		err := tx.QueryRow(ctx, `DELETE FROM eventhook.web_session WHERE token_hash = $1 RETURNING id, kind, data`, tokenHash).
			Scan((*[16]byte)(&s.ID), &kind, &data)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err == nil {
			s.Kind = session.Kind(kind)
			err = addWebSessionData(&s, data)
		}
		if err != nil {
			return err
		}
		return db.auditWebSession(ctx, tx, session.ActionEnded, s, by)
	})
}

// CreateWebLink stores a link that starts a session once, by the hash of its code.
func (db *DB) CreateWebLink(ctx context.Context, codeHash []byte, s session.Session, expiresAt time.Time) error {
	data, err := dataOfWebSession(s)
	if err != nil {
		return err
	}
	var end *time.Time
	if !s.ExpiresAt.IsZero() {
		end = &s.ExpiresAt
	}
	_, err = db.work.Exec(ctx, `INSERT INTO eventhook.web_link (code_hash, kind, data, session_expires_at, expires_at) VALUES ($1, $2, $3, $4, $5)`,
		codeHash, string(s.Kind), data, end, expiresAt)
	return translate("create a web link", err)
}

// TakeWebLink deletes a link of a kind that has not expired, and returns the session to start.
// Of concurrent callers, one deletes the row; the others get KindNotFound. Primary key.
func (db *DB) TakeWebLink(ctx context.Context, codeHash []byte, kind session.Kind, now time.Time) (s session.Session, err error) {
	var data []byte
	var end *time.Time
	err = db.work.QueryRow(ctx, `DELETE FROM eventhook.web_link WHERE code_hash = $1 AND kind = $2 AND expires_at > $3 RETURNING data, session_expires_at`,
		codeHash, string(kind), now).Scan(&data, &end)
	if err != nil {
		return s, translate("take a web link", notFound(err, "link"))
	}
	s.Kind = kind
	if end != nil {
		s.ExpiresAt = *end
	}
	return s, addWebSessionData(&s, data)
}

// The statements of SweepWebSessions skip rows that another instance is deleting. Index
// web_session_expires, for idle sessions the whole table, which is small; index web_link_expires.
const (
	deleteEndedSessionsSQL = `
DELETE FROM eventhook.web_session WHERE token_hash = ANY(ARRAY(
    SELECT token_hash FROM eventhook.web_session WHERE expires_at <= $1 OR (kind = 'console' AND last_seen_at <= $2)
    LIMIT $3 FOR UPDATE SKIP LOCKED))`
	deleteEndedLinksSQL = `
DELETE FROM eventhook.web_link WHERE code_hash = ANY(ARRAY(
    SELECT code_hash FROM eventhook.web_link WHERE expires_at <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED))`
)

// SweepWebSessions deletes up to a thousand sessions that have ended, and as many links that
// have expired. It returns the number of both.
func (db *DB) SweepWebSessions(ctx context.Context) (int, error) {
	const limit = 1000
	now := db.now()
	sessions, err := db.work.Exec(ctx, deleteEndedSessionsSQL, now, now.Add(-session.IdleTimeout), limit)
	if err != nil {
		return 0, translate("sweep web sessions", err)
	}
	links, err := db.work.Exec(ctx, deleteEndedLinksSQL, now, limit)
	return int(sessions.RowsAffected() + links.RowsAffected()), translate("sweep web links", err)
}
