package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// Ping returns an error unless the database answers, accepts changes, has a supported schema, and
// the encryption keys open its canary. If the reason is known, the error is KindUnavailable with
// the reason, for operators.
func (db *DB) Ping(ctx context.Context) error {
	err := db.CheckSchema(ctx)
	if err == nil {
		err = db.readSealing(ctx)
	}
	fault := databaseFault(err)
	switch {
	case err == nil:
		return db.KeysFit()
	case fault != nil:
		return fault
	case eventhook.KindOf(err) != "":
		return err
	}
	return fmt.Errorf("ping database: %w", err)
}

// Fit returns nil if the database accepts changes, and the schema and the encryption keys allowed this instance to work when they
// were last read, or if they were not read yet. Otherwise it returns a KindUnavailable with the
// reason. It does not use the database.
func (db *DB) Fit() error {
	if err := db.schemaErr.Load(); err != nil {
		return err
	}
	return db.KeysFit()
}

// Unreached makes Fit return an error until the schema was read. It is for an instance that started
// while the database could not be reached.
func (db *DB) Unreached() {
	db.schemaErr.Store(&eventhook.Error{Kind: eventhook.KindUnavailable, Message: "the database has not been reached since the start"})
}

// readSchemaSQL reads one row. It has no release if the schema is older than the table.
const readSchemaSQL = `SELECT m.version, m.dirty, coalesce(r.newest, 0), coalesce(r.previous, 0),
    current_setting('transaction_read_only') = 'on'
FROM eventhook.schema_migrations m LEFT JOIN eventhook.schema_release r ON true`

// schemaState is the version of the schema, and the release to which it belongs.
type schemaState struct {
	version          int64
	dirty            bool // a migration to this version runs, or was interrupted
	newest, previous int64
	isReadOnly       bool // the database accepts no changes
}

// CheckSchema reads the version of the schema and returns a KindUnavailable with the reason
// unless the program supports it: its own version, and the versions of the next release.
// Another error means that the database failed.
func (db *DB) CheckSchema(ctx context.Context) error {
	reason, err := db.checkSchema(ctx)
	if err != nil {
		return translate("read the schema version", err)
	}
	if reason != nil {
		return reason
	}
	return nil
}

// SchemaVersion returns the version of the schema of the database, and the version that the program
// supports.
func (db *DB) SchemaVersion(ctx context.Context) (stored, supported int64, err error) {
	state, err := db.readSchema(ctx)
	return state.version, db.schema, translate("read the schema version", err)
}

// checkSchema stores in memory the reason why the schema is not supported, and returns it, nil
// for none. An error means that the database failed.
func (db *DB) checkSchema(ctx context.Context) (reason *eventhook.Error, err error) {
	state, err := db.readSchema(ctx)
	if err != nil {
		return nil, err
	}
	reason = state.unsupported(db.schema)
	if state.isReadOnly {
		db.reconnect()
	}
	db.schemaErr.Store(reason)
	return reason, nil
}

// reconnect closes the connections to a server that became read-only, once they are not in use.
// With several hosts in DATABASE_URL, the next ones lead to the primary.
func (db *DB) reconnect() {
	db.accept.Reset()
	db.work.Reset()
	db.lists.Reset()
}

// readSchema reads the state on a connection of the work pool. If the schema does not fit the
// statements that these connections prepare, readSchema uses a connection of its own.
func (db *DB) readSchema(ctx context.Context) (schemaState, error) {
	state, err := scanSchema(ctx, db.work)
	if !isWrongSchema(err) {
		return state, err
	}
	conn, err := pgx.ConnectConfig(ctx, db.work.Config().ConnConfig)
	if err != nil {
		return state, err
	}
	defer closeProbe(conn)
	if state, err = scanSchema(ctx, conn); isWrongSchema(err) {
		state = schemaState{}
		err = conn.QueryRow(ctx, `SELECT version, dirty FROM eventhook.schema_migrations`).Scan(&state.version, &state.dirty)
	}
	if isWrongSchema(err) || errors.Is(err, pgx.ErrNoRows) {
		return schemaState{}, nil // no schema
	}
	return state, err
}

func scanSchema(ctx context.Context, q querier) (s schemaState, err error) {
	err = q.QueryRow(ctx, readSchemaSQL).Scan(&s.version, &s.dirty, &s.newest, &s.previous, &s.isReadOnly)
	if errors.Is(err, pgx.ErrNoRows) {
		return schemaState{}, nil // no schema
	}
	return s, err
}

// unsupported returns the reason why a program that knows the schema up to a version cannot
// work on it, or nil.
func (s schemaState) unsupported(known int64) *eventhook.Error {
	isOfNextRelease := s.version > known && s.version <= s.newest && s.previous <= known
	var reason string
	var cause error
	switch {
	case s.isReadOnly:
		reason, cause = databaseFaults[codeReadOnly].String(), errReadOnly
	case known == 0 || isOfNextRelease:
		return nil
	case s.version == known && !s.dirty:
		return nil
	case s.version > known:
		reason = fmt.Sprintf("The schema of the database is newer than this program: it has version %d, and this program supports version %d and those of the next release. "+
			"Use a newer eventhook.", s.version, known)
	case s.dirty:
		reason = fmt.Sprintf("A migration of the database to schema version %d is running, or stopped in the middle: run eventhook migrate.", s.version)
	default:
		reason = fmt.Sprintf("The schema of the database is older than this program: it has version %d, and this program requires version %d: "+
			"run eventhook migrate.", s.version, known)
	}
	return &eventhook.Error{Kind: eventhook.KindUnavailable, Message: reason, RetryAfter: notReadyRetryAfter, Cause: cause}
}

// notReadyRetryAfter is the Retry-After of answers while an instance is not fit.
const notReadyRetryAfter = 10 * time.Second

// asNotReady returns ErrNotReady if a statement does not fit the schema, since another instance
// may accept the webhook, and if the database accepts no changes or connections for now. It
// returns other errors as they are.
func asNotReady(err error) error {
	if !isWrongSchema(err) && !hasCode(err, codeReadOnly, codeDiskFull, codeTooManyConnections) {
		return err
	}
	return &eventhook.Error{Kind: eventhook.KindUnavailable, Message: eventhook.ErrNotReady.Message, RetryAfter: notReadyRetryAfter,
		Cause: err}
}

// isWrongSchema reports whether a statement names a schema, table, column or function that does
// not exist.
func isWrongSchema(err error) bool {
	return hasCode(err, codeInvalidSchema, codeUndefinedTable, codeUndefinedColumn, codeUndefinedFunction)
}

// WatchFit reads the schema and the keys' canary at each interval, and when either changes,
// until ctx ends. It logs when this instance stops being fit, and when it is fit again. Both lines
// have the reason, so that the log holds them back in an outage, as it does other lines with
// errors for which IsOutage returns true.
func (db *DB) WatchFit(ctx context.Context, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		changed := db.hub.wait(sealingTopic)
		before := db.Fit()
		if err := db.StartFit(ctx); err != nil && ctx.Err() == nil {
			db.log.Warn("cannot check the schema and the encryption keys; trying again later", "error", err)
		}
		switch after := db.Fit(); {
		case before == nil && after != nil:
			db.log.Error("this instance is not ready: it accepts no webhooks and processes nothing", "error", after)
		case before != nil && after == nil:
			db.log.Info("the schema and the encryption keys fit the database now: this instance is ready", "was", before)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-changed:
		}
	}
}

// StartFit checks the schema and, if it is supported, the encryption keys; see Fit. It writes
// the canary if it is missing, as StartSealing says. An error means that the database failed.
func (db *DB) StartFit(ctx context.Context) error {
	reason, err := db.checkSchema(ctx)
	if reason != nil || err != nil {
		return translate("read the schema version", err) // nil if Fit reports the reason
	}
	return db.StartSealing(ctx)
}
