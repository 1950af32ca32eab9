package pg

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// canaryText is the text of the canary, which each database stores sealed. The canary is bound
// to the mode, so that a mode that was changed without the encryption keys does not fit its
// canary.
const canaryText = "eventhook canary"

func canaryPlace(mode sealMode) string { return "sealing.canary:" + string(mode) }

// sealingTopic wakes WatchSealing on all instances.
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

// WatchSealing reads the mode at each interval, and when it changes, until ctx ends. It logs
// when the keys stop fitting the database, and when they fit again.
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
