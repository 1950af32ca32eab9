package pg

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// sealMode is how the secrets of a database are sealed. It only moves forward:
//
//	unbound ──rotate──▶ bound ──every value is bound──▶ bound_only
//
// An upgraded database begins with unbound, so that instances of the former version can read
// new values. A new database begins with bound_only.
type sealMode string

const (
	sealsUnbound   sealMode = "unbound"    // write unbound values, open both
	sealsBound     sealMode = "bound"      // write bound values, open both
	sealsBoundOnly sealMode = "bound_only" // write bound values, refuse unbound ones
)

// sealModes orders the modes.
var sealModes = map[sealMode]int{sealsUnbound: 1, sealsBound: 2, sealsBoundOnly: 3}

// sealing is the row of eventhook.sealing as an instance has read it.
type sealing struct {
	mode   sealMode
	err    error  // nil if the keys open the canary
	canary string // the sealed text
}

// Reasons why no secret is sealed and no work is claimed.
const (
	keysDoNotFit = "The encryption keys of this instance do not fit this database: they do not open its canary. " +
		"Set EVENTHOOK_ENCRYPTION_KEYS to the keys that the other instances have; docs/secrets.md says what to do if a key is lost."
	sealingMissing = "The row of eventhook.sealing is missing, and with it the canary of the encryption keys: restore it from a backup."
)

var errUnbound = errors.New("the sealed text is not bound to its place, and this database accepts only bound ones")

// readSealingSQL reads one row.
const readSealingSQL = `SELECT mode, coalesce(canary, '') FROM eventhook.sealing`

// readSealing returns the mode and the canary, which is "" before the first start. lock is ""
// or a FOR clause.
func readSealing(ctx context.Context, q querier, lock string) (mode sealMode, canary string, err error) {
	err = q.QueryRow(ctx, readSealingSQL+lock).Scan((*string)(&mode), &canary)
	if errors.Is(err, pgx.ErrNoRows) {
		err = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: sealingMissing}
	}
	return mode, canary, err
}

// ReadSealing reads the mode and checks the keys with the canary. It writes nothing. Without a
// canary, the keys fit if they open a stored secret or if no secret is stored.
func (db *DB) ReadSealing(ctx context.Context) error {
	return translate("check the encryption keys", db.readSealing(ctx))
}

func (db *DB) readSealing(ctx context.Context) error {
	mode, canary, err := readSealing(ctx, db.work, "")
	if err != nil {
		return err
	}
	if canary == "" { // no instance has started yet
		if open, err := db.canOpenStored(ctx); open || err != nil {
			return err
		}
	}
	db.storeSealing(mode, canary)
	return nil
}

// storeSealing stores the row of eventhook.sealing in memory and returns it. If the mode is
// older than the stored one, the stored mode stays.
func (db *DB) storeSealing(mode sealMode, canary string) *sealing {
	var wrong error
	if text, err := db.sealer.Open(canary, canaryPlace(mode)); err != nil || text != canaryText {
		wrong = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: keysDoNotFit, RetryAfter: time.Minute, Cause: err}
		mode = sealsBoundOnly // the mode in the row is not authentic
	}
	for {
		s, was := &sealing{mode, wrong, canary}, db.sealing.Load()
		if was != nil && was.err == nil && (wrong != nil || sealModes[was.mode] > sealModes[mode]) {
			s.mode = was.mode
		}
		if db.sealing.CompareAndSwap(was, s) {
			return s
		}
	}
}

// KeysFit returns nil if the encryption keys opened the canary at its last reading, or if it
// was not read yet. Otherwise it returns a KindUnavailable with the reason.
func (db *DB) KeysFit() error {
	if s := db.sealing.Load(); s != nil {
		return s.err
	}
	return nil
}

// RefusesUnbound reports whether a secret opens only if it is bound to its place.
func (db *DB) RefusesUnbound() bool {
	s := db.sealing.Load()
	return s != nil && s.mode == sealsBoundOnly
}

// CanaryKey returns the id of the key that sealed the canary at its last reading, or ""
// without a canary.
func (db *DB) CanaryKey() string {
	s := db.sealing.Load()
	if s == nil {
		return ""
	}
	_, rest, _ := strings.Cut(s.canary, ":")
	id, _, _ := strings.Cut(rest, ":")
	return id
}

// Unreadable returns how many stored secrets this instance failed to open. Each attempt
// counts.
func (db *DB) Unreadable() int64 { return db.unreadable.Load() }

// seal seals a text for a column of a row. It locks the row of eventhook.sealing, so that the
// mode does not change until the transaction ends. The error is KindUnavailable if the keys do
// not fit the database.
func (m *mutation) seal(ctx context.Context, c sealedColumn, row, tenant [16]byte, plain string) (string, error) {
	if m.sealing == nil {
		lock := " FOR SHARE"
		if m.dryRun {
			lock = ""
		}
		mode, canary, err := readSealing(ctx, m.tx, lock)
		if err != nil {
			return "", hideSealReason(err)
		}
		if m.dryRun && canary == "" {
			m.sealing = &sealing{mode: mode} // a dry run may come before the first start
		} else {
			m.sealing = m.db.storeSealing(mode, canary)
		}
	}
	switch {
	case m.sealing.err != nil:
		return "", hideSealReason(m.sealing.err)
	case m.sealing.mode == sealsUnbound:
		return m.db.sealer.Seal(plain, "")
	}
	return m.db.sealer.Seal(plain, c.place(row, tenant))
}

// hideSealReason replaces the reason why nothing can be sealed by a text for tenants. The
// operator finds the reason in the log and in the readiness. It returns other errors as they
// are.
func hideSealReason(err error) error {
	e, ok := errors.AsType[*eventhook.Error](err)
	if !ok || e.Kind != eventhook.KindUnavailable {
		return err
	}
	return &eventhook.Error{Kind: e.Kind, Message: "Secrets cannot be stored now; try again later.", RetryAfter: e.RetryAfter, Cause: err}
}

// open returns the plain text of a sealed column of a row.
func (db *DB) open(c sealedColumn, row, tenant [16]byte, sealed string) (string, error) {
	text, err := db.openIn(sealed, c.place(row, tenant))
	if err != nil {
		db.unreadable.Add(1)
	}
	return text, err
}

func (db *DB) openIn(sealed, place string) (string, error) {
	if db.RefusesUnbound() && isUnbound(sealed) {
		return "", errUnbound
	}
	return db.sealer.Open(sealed, place)
}

// sealedColumn is a column of sealed texts. Its table has a primary key of one id, and a
// tenant_id.
type sealedColumn struct{ table, key, column string }

var (
	sourceVerifier       = sealedColumn{"source", "id", "verifier"}
	sourceConsumeSecrets = sealedColumn{"source", "id", "consume_secrets"}
	learnedSecret        = sealedColumn{"learned_secret", "source_id", "secret"}
	routeTargetSecrets   = sealedColumn{"route", "id", "target_secrets"}
	subscriptionsSecrets = sealedColumn{"subscription", "id", "secrets"}
)

// sealedColumns lists all columns of sealed texts. A test finds columns that are missing here.
var sealedColumns = []sealedColumn{sourceVerifier, sourceConsumeSecrets, learnedSecret, routeTargetSecrets, subscriptionsSecrets}

func (c sealedColumn) String() string { return c.table + "." + c.column }

// place returns the place that a sealed text is bound to: table, column, row and tenant.
func (c sealedColumn) place(row, tenant [16]byte) string {
	place := append(append(make([]byte, 0, 96), c.table...), '.')
	place = append(append(place, c.column...), ':')
	place = append(hex.AppendEncode(place, row[:]), ':')
	return string(hex.AppendEncode(place, tenant[:]))
}

// The prefixes of sealed texts, which package seal writes.
const (
	unboundPrefix = "enc:"
	boundPrefix   = "enc2:"
)

func isUnbound(sealed string) bool { return strings.HasPrefix(sealed, unboundPrefix) }

// sql inserts the column's names into a statement.
func (c sealedColumn) sql(statement string) string {
	return strings.NewReplacer("{table}", "eventhook."+c.table, "{key}", c.key, "{column}", c.column).Replace(statement)
}

// SealedCount is the number of values of a column that one key has sealed in one format.
type SealedCount struct {
	Column  string // such as source.verifier
	KeyID   string // "" for values that are not sealed
	IsBound bool   // the values are bound to their place
	Count   int

	in sealedColumn
}

// prefix returns the beginning of the counted values, without the last colon.
func (n SealedCount) prefix() string {
	if n.IsBound {
		return boundPrefix + n.KeyID
	}
	return unboundPrefix + n.KeyID
}

// countSealedSQL reads the whole table.
const countSealedSQL = `
SELECT CASE WHEN left({column}, 4) = 'enc:' OR left({column}, 5) = 'enc2:' THEN split_part(left({column}, 100), ':', 2) ELSE '' END AS key_id,
    left({column}, 5) = 'enc2:' AS is_bound, count(*)
FROM {table} WHERE {column} IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2`

// CountSealed counts the stored secrets by column, key id and format.
func (db *DB) CountSealed(ctx context.Context) (counts []SealedCount, err error) {
	for _, c := range sealedColumns {
		rows, err := db.work.Query(ctx, c.sql(countSealedSQL))
		if err != nil {
			return nil, translate("count sealed values", err)
		}
		list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (SealedCount, error) {
			n := SealedCount{Column: c.String(), in: c}
			return n, r.Scan(&n.KeyID, &n.IsBound, &n.Count)
		})
		if err != nil {
			return nil, translate("count sealed values", err)
		}
		counts = append(counts, list...)
	}
	return counts, nil
}

// canaryText is the text of the canary, which each database stores sealed. The canary is bound
// to the mode, so that a mode that was changed without the encryption keys does not fit its
// canary.
const canaryText = "eventhook canary"

func canaryPlace(mode sealMode) string { return "sealing.canary:" + string(mode) }

// sealingTopic wakes WatchFit on all instances.
const sealingTopic = "sealing"

// StartSealing writes the canary if it is missing, and stores in memory whether the
// keys open it; see KeysFit. Instances that start together write one canary. It writes none if
// the database holds secrets and the keys open none of them. An error means that the database
// failed.
func (db *DB) StartSealing(ctx context.Context) error {
	_, canary, err := readSealing(ctx, db.work, "")
	if err == nil && canary == "" {
		err = db.writeFirstCanary(ctx)
	}
	if err == nil {
		err = db.readSealing(ctx)
	}
	return translate("check the encryption keys", err)
}

// ensureSealing calls StartSealing unless this instance has read the mode before.
func (db *DB) ensureSealing(ctx context.Context) error {
	if db.sealing.Load() != nil {
		return nil
	}
	return db.StartSealing(ctx)
}

func (db *DB) writeFirstCanary(ctx context.Context) error {
	open, err := db.canOpenStored(ctx)
	if err != nil || !open {
		return err // no canary is written, so KeysFit reports that the keys do not fit
	}
	return pgx.BeginFunc(ctx, db.work, func(tx pgx.Tx) error {
		mode, canary, err := readSealing(ctx, tx, " FOR UPDATE")
		if err != nil || canary != "" {
			return err
		}
		return db.writeCanary(ctx, tx, mode)
	})
}

// anySealedSQL reads one value that a key has sealed.
const anySealedSQL = `SELECT {key}, tenant_id, {column} FROM {table} WHERE starts_with({column}, $1 || ':') LIMIT 1`

// canOpenStored reports whether the keys open a stored value, or no value is stored.
func (db *DB) canOpenStored(ctx context.Context) (bool, error) {
	counts, err := db.CountSealed(ctx)
	if err != nil {
		return false, err
	}
	stored := 0
	for _, count := range counts {
		if count.KeyID == "" {
			continue // these values are not sealed
		}
		stored += count.Count
		var key, tenant [16]byte
		var text string
		err := db.work.QueryRow(ctx, count.in.sql(anySealedSQL), count.prefix()).Scan(&key, &tenant, &text)
		if errors.Is(err, pgx.ErrNoRows) {
			continue // the values were changed concurrently
		}
		if err != nil {
			return false, err
		}
		if _, err := db.sealer.Open(text, count.in.place(key, tenant)); err == nil {
			return true, nil
		}
	}
	return stored == 0, nil
}

// writeCanary seals the canary for a mode with the newest key. The commit of tx notifies the
// other instances. The caller holds the lock of the row.
func (db *DB) writeCanary(ctx context.Context, tx pgx.Tx, mode sealMode) error {
	canary, err := db.sealer.Seal(canaryText, canaryPlace(mode))
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `UPDATE eventhook.sealing SET mode = $1, canary = $2`, string(mode), canary); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `SELECT pg_notify('`+wakeChannel+`', $1 || ' `+sealingTopic+`')`, db.hub.self)
	return err
}

// ReplaceCanary writes a new canary with the configured keys, even if they do not open the
// present one. It is for an operator whose former keys are lost.
func (db *DB) ReplaceCanary(ctx context.Context) error {
	err := db.inTx(ctx, "replace the canary", func(tx pgx.Tx) error {
		mode, _, err := readSealing(ctx, tx, " FOR UPDATE")
		if err != nil {
			return err
		}
		return db.writeCanary(ctx, tx, mode)
	})
	if err != nil {
		return err
	}
	return db.ReadSealing(ctx)
}
