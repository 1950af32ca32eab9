package pg

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// StoreLearnedSecret stores the secret that a source's handshake has sent; a trigger
// notifies all instances. The error is KindConflict if the source has a learned secret already
// or does not exist any more. Primary key.
func (db *DB) StoreLearnedSecret(ctx context.Context, source eventhook.SourceID, secret eventhook.Secret) error {
	if err := db.ensureSealing(ctx); err != nil {
		return err
	}
	return db.inTx(ctx, "learn a secret", func(tx pgx.Tx) error {
		m := &mutation{db: db, tx: tx}
		var tenant [16]byte
		err := tx.QueryRow(ctx, `SELECT tenant_id FROM eventhook.source WHERE id = $1`, [16]byte(source)).Scan(&tenant)
		if errors.Is(err, pgx.ErrNoRows) {
			return errHasSecret
		}
		if err != nil {
			return err
		}
		sealed, err := m.seal(ctx, learnedSecret, source, tenant, secret.Reveal())
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `INSERT INTO eventhook.learned_secret (source_id, tenant_id, secret, learned_at)
			SELECT id, tenant_id, $2, $3 FROM eventhook.source WHERE id = $1
			ON CONFLICT (source_id) DO NOTHING`, [16]byte(source), sealed, db.now())
		if err == nil && tag.RowsAffected() == 0 {
			return errHasSecret
		}
		return err
	})
}

var errHasSecret = &eventhook.Error{Kind: eventhook.KindConflict, Message: "the source has a learned secret already"}

// LearnedSecret returns when a source learned its secret, and when that was revealed, nil if
// never. The error is KindNotFound if the source has learned none. Primary key.
func (db *DB) LearnedSecret(ctx context.Context, source eventhook.SourceID) (learnedAt time.Time, revealedAt *time.Time, err error) {
	err = db.work.QueryRow(ctx, `SELECT learned_at, revealed_at FROM eventhook.learned_secret WHERE source_id = $1`,
		[16]byte(source)).Scan(&learnedAt, &revealedAt)
	return learnedAt, revealedAt, translate("read a learned secret", notFound(err, "learned secret"))
}

// RevealSecret returns the secret that a source has learned, once. The error is KindConflict
// if it was revealed before, or if the source has learned none. Primary keys.
func (db *DB) RevealSecret(ctx context.Context, by eventhook.Actor, s eventhook.Source) (secret eventhook.Secret, err error) {
	err = db.mutate(ctx, "show a learned secret", by, s.TenantID, func(m *mutation) error {
		var sealed string
		err := m.tx.QueryRow(ctx, `UPDATE eventhook.learned_secret SET revealed_at = $2
			WHERE source_id = $1 AND revealed_at IS NULL RETURNING secret`, [16]byte(s.ID), db.now()).Scan(&sealed)
		if eventhook.KindOf(notFound(err, "learned secret")) == eventhook.KindNotFound {
			return &eventhook.Error{Kind: eventhook.KindConflict,
				Message: "the source has learned no secret, or the secret was revealed already; reset the handshake to learn a new one"}
		}
		if err != nil {
			return err
		}
		text, err := db.open(learnedSecret, s.ID, s.TenantID, sealed)
		secret = eventhook.NewSecret(text)
		m.recordChanges("source.handshake_secret_revealed", resource{"source", s.ID.String(), s.Slug}, boolChange("secret_is_revealed", true))
		return err
	})
	return secret, err
}

// ResetHandshake deletes the learned secret of a source and lets the source wait for its
// handshake again, from now on. It succeeds if the source has learned none. Primary keys.
func (db *DB) ResetHandshake(ctx context.Context, by eventhook.Actor, s eventhook.Source) error {
	return db.mutate(ctx, "reset the handshake", by, s.TenantID, func(m *mutation) error {
		if err := m.exec(ctx, `UPDATE eventhook.source SET handshake_opened_at = $2 WHERE id = $1`, [16]byte(s.ID), db.now()); err != nil {
			return err
		}
		tag, err := m.tx.Exec(ctx, `DELETE FROM eventhook.learned_secret WHERE source_id = $1`, [16]byte(s.ID))
		if err != nil {
			return err
		}
		var changes []eventhook.FieldChange
		switch isOld := db.now().Sub(s.HandshakeOpenedAt) > eventhook.HandshakeWindow; {
		case tag.RowsAffected() > 0:
			changes = boolChange("secret_is_learned", false)
		case isOld:
			changes = boolChange("handshake_is_open", true)
		}
		m.recordChanges("source.handshake_reset", resource{"source", s.ID.String(), s.Slug}, changes)
		return nil
	})
}

// boolChange returns the change of a boolean field to its opposite.
func boolChange(field string, to bool) []eventhook.FieldChange {
	return []eventhook.FieldChange{{Field: field, From: strconv.AppendBool(nil, !to), To: strconv.AppendBool(nil, to)}}
}

// fastlySQL reads a partial index on the sources of Fastly. It takes at most 100 sources of
// one tenant, so that one tenant cannot use up the limit for all.
const fastlySQL = `
WITH fair AS (
    SELECT id, row_number() OVER (PARTITION BY tenant_id ORDER BY id) AS nth
    FROM eventhook.source WHERE provider = 'fastly' AND is_enabled
)
SELECT ` + sourceColumns + sourceTables + ` JOIN fair ON fair.id = s.id
WHERE fair.nth <= 100 AND t.status = 'active' ORDER BY s.id LIMIT 1000`

// maxServicesPerSource bounds the services of one source, so that one source cannot use up the
// space for all.
const maxServicesPerSource = 100

// FastlyServices returns the ids of the Fastly services whose logs enabled sources receive,
// unordered and possibly with repetitions. It reads the first thousand sources, at most a
// hundred of one tenant, and the first hundred ids of each.
func (db *DB) FastlyServices(ctx context.Context) ([]string, error) {
	rows, err := db.lists.Query(ctx, fastlySQL)
	if err != nil {
		return nil, translate("list the services of Fastly", err)
	}
	sources, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (eventhook.Source, error) { return db.scanSource(r) })
	if err != nil {
		return nil, translate("list the services of Fastly", err)
	}
	var ids []string
	for _, s := range sources {
		var spec struct {
			Options struct {
				ServiceIDs string `json:"service_ids"`
			} `json:"options"`
		}
		if json.Unmarshal([]byte(s.Verifier.Reveal()), &spec) == nil { // a verifier that cannot be decoded has no services
			for i, id := range strings.SplitN(spec.Options.ServiceIDs, ",", maxServicesPerSource+1) {
				if i < maxServicesPerSource {
					ids = append(ids, strings.TrimSpace(id))
				}
			}
		}
	}
	return ids, nil
}
