package pg

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// sealMode says how a database's secrets are sealed. It only moves forward.
//
//	unbound ──rotate──▶ bound ──every value is bound──▶ bound_only
//
// A database that was upgraded begins with unbound, so that instances of the
// former version can read what is written. A new one begins with bound_only.
type sealMode string

const (
	sealsUnbound   sealMode = "unbound"    // writes unbound values
	sealsBound     sealMode = "bound"      // writes bound values, and opens both
	sealsBoundOnly sealMode = "bound_only" // refuses unbound values
)

var sealModes = map[sealMode]int{sealsUnbound: 1, sealsBound: 2, sealsBoundOnly: 3}

// sealing is what an instance knows of the database's row in eventhook.sealing.
type sealing struct {
	mode   sealMode
	err    error  // nil if the keys open the canary
	canary string // as it is stored
}

// canaryText is sealed in every database. The place of the canary names the
// mode: a mode that was changed without the keys does not fit its canary.
const canaryText = "eventhook canary"

func canaryPlace(mode sealMode) string { return "sealing.canary:" + string(mode) }

// sealingTopic wakes WatchSealing on all instances.
const sealingTopic = "sealing"

// Why nothing is sealed and no work is claimed.
const (
	keysDoNotFit = "The encryption keys of this instance do not fit this database: they do not open its canary. " +
		"Set EVENTHOOK_ENCRYPTION_KEYS to the keys that the other instances have; docs/secrets.md says what to do if a key is lost."
	sealingIsGone = "The row of eventhook.sealing is missing, and with it the canary of the encryption keys: restore it from a backup."
)

var errUnbound = errors.New("the sealed text is not bound to its place, and this database takes bound ones only")

// readSealingSQL reads one row.
const readSealingSQL = `SELECT mode, coalesce(canary, '') FROM eventhook.sealing`

// rowQuerier is a pool or a transaction.
type rowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// readSealing returns the mode and the canary, "" before the first start. The
// lock is "" or a FOR clause.
func readSealing(ctx context.Context, q rowQuerier, lock string) (mode sealMode, canary string, err error) {
	err = q.QueryRow(ctx, readSealingSQL+lock).Scan((*string)(&mode), &canary)
	if errors.Is(err, pgx.ErrNoRows) {
		err = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: sealingIsGone}
	}
	return mode, canary, err
}

// StartSealing writes the canary if the database has none, and remembers
// whether the keys open it: see KeysFit. Instances that start together write
// one canary. It writes none if the database holds secrets and the keys open
// none of them. Its error means that the database failed.
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

// knowSealing calls StartSealing unless this instance has read the mode before.
func (db *DB) knowSealing(ctx context.Context) error {
	if db.sealing.Load() != nil {
		return nil
	}
	return db.StartSealing(ctx)
}

// ReadSealing reads the mode, and whether the keys open the canary, and writes
// nothing. Without a canary the keys fit if they open a stored secret, or if
// there is none.
func (db *DB) ReadSealing(ctx context.Context) error {
	return translate("check the encryption keys", db.readSealing(ctx))
}

func (db *DB) readSealing(ctx context.Context) error {
	mode, canary, err := readSealing(ctx, db.work, "")
	if err != nil {
		return err
	}
	if canary == "" { // no instance has started yet
		if open, err := db.opensStored(ctx); open || err != nil {
			return err
		}
	}
	db.learn(mode, canary)
	return nil
}

// learn remembers what the row of eventhook.sealing says. An instance that has
// seen a mode does not go back to a former one.
func (db *DB) learn(mode sealMode, canary string) *sealing {
	var wrong error
	if text, err := db.sealer.Open(canary, canaryPlace(mode)); err != nil || text != canaryText {
		wrong = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: keysDoNotFit, RetryAfter: time.Minute, Cause: err}
		mode = sealsBoundOnly // the one in the row is not authentic
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

// KeysFit returns nil if the encryption keys opened the canary when it was read
// last, or if it was not read yet; else KindUnavailable with the reason.
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

// CanaryKey is the id of the key that sealed the canary when it was read last, ""
// without one.
func (db *DB) CanaryKey() string {
	s := db.sealing.Load()
	if s == nil {
		return ""
	}
	_, rest, _ := strings.Cut(s.canary, ":")
	id, _, _ := strings.Cut(rest, ":")
	return id
}

func (db *DB) writeFirstCanary(ctx context.Context) error {
	open, err := db.opensStored(ctx)
	if err != nil || !open {
		return err // without a canary the keys do not fit
	}
	return pgx.BeginFunc(ctx, db.work, func(tx pgx.Tx) error {
		mode, canary, err := readSealing(ctx, tx, " FOR UPDATE")
		if err != nil || canary != "" {
			return err
		}
		return db.writeCanary(ctx, tx, mode)
	})
}

// anySealedSQL reads one value.
const anySealedSQL = `SELECT {key}, tenant_id, {column} FROM {table} WHERE starts_with({column}, $1 || ':') LIMIT 1`

// opensStored reports whether the keys open a stored value, or none is stored.
func (db *DB) opensStored(ctx context.Context) (bool, error) {
	counts, err := db.CountSealed(ctx)
	if err != nil {
		return false, err
	}
	stored := 0
	for _, count := range counts {
		if count.KeyID == "" {
			continue // no sealed text
		}
		stored += count.Count
		var key, tenant [16]byte
		var text string
		err := db.work.QueryRow(ctx, count.in.sql(anySealedSQL), count.prefix()).Scan(&key, &tenant, &text)
		if errors.Is(err, pgx.ErrNoRows) {
			continue // it was changed since
		}
		if err != nil {
			return false, err
		}
		if _, err := db.sealer.Open(text, count.in.at(key, tenant)); err == nil {
			return true, nil
		}
	}
	return stored == 0, nil
}

// writeCanary seals the canary for a mode with the newest key, and tells the
// other instances when tx commits. The caller holds the row.
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

// ReplaceCanary accepts the configured keys for the database, whatever sealed
// its canary: for an operator whose former keys are lost.
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

// WatchSealing learns the mode when it changes, and at each interval, until ctx
// ends. It logs when the keys stop to fit, and when they fit again.
func (db *DB) WatchSealing(ctx context.Context, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		changed := db.hub.wait(sealingTopic)
		before := db.KeysFit()
		if err := db.StartSealing(ctx); err != nil && ctx.Err() == nil {
			db.log.Warn("cannot check the encryption keys; trying again later", "error", err)
		}
		switch after := db.KeysFit(); {
		case before == nil && after != nil:
			db.log.Error("the encryption keys do not fit the database any more", "error", after)
		case before != nil && after == nil:
			db.log.Info("the encryption keys fit the database now")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-changed:
		}
	}
}

// Unreadable is how many stored secrets did not open when this instance read
// them; one that is read twice counts twice.
func (db *DB) Unreadable() int64 { return db.unreadable.Load() }

// seal seals a text for a column of a row. The mode stays as it is until the
// transaction ends: a change of the mode waits for the row that this locks. If the
// keys do not fit the database it is KindUnavailable.
func (m *manager) seal(ctx context.Context, c sealedColumn, row, tenant [16]byte, plain string) (string, error) {
	if m.sealing == nil {
		lock := " FOR SHARE"
		if m.dryRun {
			lock = ""
		}
		mode, canary, err := readSealing(ctx, m.tx, lock)
		if err != nil {
			return "", err
		}
		if m.dryRun && canary == "" {
			m.sealing = &sealing{mode: mode} // a plan may come before the first start
		} else {
			m.sealing = m.db.learn(mode, canary)
		}
	}
	switch {
	case m.sealing.err != nil:
		return "", m.sealing.err
	case m.sealing.mode == sealsUnbound:
		return m.db.sealer.Seal(plain, "")
	}
	return m.db.sealer.Seal(plain, c.at(row, tenant))
}

// open returns the text that is sealed in a column of a row.
func (db *DB) open(c sealedColumn, row, tenant [16]byte, sealed string) (string, error) {
	text, err := db.openIn(sealed, c.at(row, tenant))
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
