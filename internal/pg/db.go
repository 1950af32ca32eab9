// Package pg keeps everything in PostgreSQL. All SQL of the gateway is here,
// each statement whole and beside the method that runs it, and no transaction
// leaves the package: a method is one atomic act. It implements interfaces of the
// packages that consume it, such as ingest.Store, route.Queue and outbound.Queue.
// Errors that a caller can act upon are eventhook.Errors; all other errors mean that
// the database failed. Every method is safe for concurrent use, and correct with other
// instances at work on the same database.
//
// Two transactions store the effects of events, with the same statements (effects.go):
// Accept, together with new events, and SettleEvents, for leased events. The state of an
// event with open deliveries to targets of its routes follows from these deliveries
// (eventconclude.go).
package pg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/roundrobin"
)

// Sealer seals secrets for the database, and opens them. A text that is sealed
// for a place begins with "enc2:" and opens at that place only; without a place
// it begins with "enc:" and opens at every place. See package seal.
type Sealer interface {
	Seal(plain, place string) (string, error)
	Open(sealed, place string) (string, error)
}

// Options are what a DB needs besides its URL.
type Options struct {
	AcceptConns int // connections that only accept events
	WorkConns   int // connections for everything else but lists
	ListConns   int // connections for lists that people ask for
	KeyTTL      time.Duration
	Sealer      Sealer
	// Describe tells of a source's verifier what may be known, as a JSON object,
	// and all of its secrets as one text that is only compared. nil: nothing.
	Describe func(verifier eventhook.Secret) (public json.RawMessage, secrets string, err error)
	// FaultsOfNew are what is wrong with a source's verifier that was not wrong
	// with the one before, which is zero for a new source. Applying a
	// configuration is refused for them. nil: nothing is.
	FaultsOfNew func(have, want eventhook.Secret) eventhook.Faults
	// Matches reports whether a subscription's filter takes an event of the
	// gateway's own; a filter that cannot be read takes none. nil: all do.
	Matches func(filter json.RawMessage, e *eventhook.Event) bool
	Log     *slog.Logger
	Now     func() time.Time // nil means time.Now
}

// DB is the gateway's store. Accepting has connections of its own, so that
// nothing else can make it wait, and lists have theirs and a bound in time, so
// that who browses makes no work wait.
type DB struct {
	accept      *pgxpool.Pool
	work        *pgxpool.Pool
	lists       *pgxpool.Pool
	hub         hub
	feed        *eventFeed
	claims      *roundrobin.Queues[eventhook.TenantID, struct{}]
	changes     *roundrobin.Slots[eventhook.TenantID] // of the configuration
	keyTTL      time.Duration
	sealer      Sealer
	describe    func(eventhook.Secret) (json.RawMessage, string, error)
	matches     func(json.RawMessage, *eventhook.Event) bool
	faultsOfNew func(have, want eventhook.Secret) eventhook.Faults
	log         *slog.Logger
	now         func() time.Time

	sealing    atomic.Pointer[sealing] // nil before it was read
	unreadable atomic.Int64            // secrets that did not open

	acceptBufs         sync.Pool // of *acceptColumns
	publishBufs        sync.Pool // of *columns
	settleBufs         sync.Pool // of *settleColumns
	deliverySettleBufs sync.Pool // of *deliverySettleColumns

	sweptKeys, sweptExecutions sweepPosition
	sweptPromises              sweepPosition

	sweptTenantUsage, sweptSourceUsage, sweptSubscriptionUsage sweepPosition

	lockWait time.Duration // lockWait, shorter in tests
}

// Open makes the pools. It fails if the URL cannot be parsed, and does not
// wait for the server: see Ping.
func Open(ctx context.Context, url string, o Options) (*DB, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	now := o.Now
	o.Now = func() time.Time { return now().Truncate(time.Microsecond) } // as PostgreSQL keeps it: what is made is told as it will be read
	if o.Describe == nil {
		o.Describe = func(v eventhook.Secret) (json.RawMessage, string, error) { return nil, v.Reveal(), nil }
	}
	if o.FaultsOfNew == nil {
		o.FaultsOfNew = func(_, _ eventhook.Secret) eventhook.Faults { return nil }
	}
	if o.Matches == nil {
		o.Matches = func(json.RawMessage, *eventhook.Event) bool { return true }
	}
	db := &DB{keyTTL: o.KeyTTL, sealer: o.Sealer, describe: o.Describe, matches: o.Matches, faultsOfNew: o.FaultsOfNew, log: o.Log, now: o.Now, lockWait: lockWait}
	db.hub.topics, db.hub.outgoing = map[string]chan struct{}{}, make(chan struct{}, 1)
	db.feed = newEventFeed(&db.hub)
	db.claims = roundrobin.NewQueues[eventhook.TenantID, struct{}](max(o.WorkConns/claimSlotShare, 1))
	db.changes = roundrobin.NewSlots[eventhook.TenantID](o.WorkConns/2, o.WorkConns/changeSlotShare, maxWaitingChanges)
	db.hub.self = eventhook.NewID[DB](o.Now()).String()
	db.acceptBufs.New = func() any { return newAcceptColumns() }
	db.publishBufs.New = func() any { return newColumns(publishSQL) }
	db.settleBufs.New = func() any { return newSettleColumns() }
	db.deliverySettleBufs.New = func() any { return newDeliverySettleColumns() }
	var err error
	db.accept, err = pool(ctx, url, o.AcceptConns, acceptStatements, durableWithGenericPlans)
	if err != nil {
		return nil, err
	}
	db.work, err = pool(ctx, url, o.WorkConns, workStatements, indexScansOnly)
	if err != nil {
		db.accept.Close()
		return nil, err
	}
	db.lists, err = pool(ctx, url, o.ListConns, nil, slices.Concat(indexScansOnly, []string{"enable_bitmapscan = off", "statement_timeout = '5s'"}))
	if err != nil {
		db.accept.Close()
		db.work.Close()
		return nil, err
	}
	return db, nil
}

// indexScansOnly keeps the planner from caching a plan that reads whole
// tables: it would choose one while they are small, and keep it while they
// grow by thousands of rows a second until the next ANALYZE. Every statement
// of the work pool is written for an index.
var indexScansOnly = []string{"enable_hashjoin = off", "enable_mergejoin = off", "enable_seqscan = off"}

// durableWithGenericPlans makes an accepted event durable whatever the role's or
// the server's default is, and keeps the statements' plans, which read by index.
var durableWithGenericPlans = []string{"synchronous_commit = on", "plan_cache_mode = force_generic_plan", "enable_seqscan = off"}

// tcpKeepalives makes the server end the session of an instance that is cut off from
// the network within half a minute, and not after two hours: its transaction holds locks.
var tcpKeepalives = []string{"tcp_keepalives_idle = 10", "tcp_keepalives_interval = 5", "tcp_keepalives_count = 3"}

func pool(ctx context.Context, url string, conns int, statements []*statement, settings []string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, &eventhook.Error{Kind: eventhook.KindInvalid, Message: "DATABASE_URL is not a PostgreSQL URL such as postgres://host:5432/database"}
	}
	config.MaxConns = int32(max(conns, 1))
	config.MaxConnLifetimeJitter = time.Minute
	config.ConnConfig.ConnectTimeout = 5 * time.Second
	config.ConnConfig.RuntimeParams["application_name"] = "eventhook"
	config.ConnConfig.RuntimeParams["timezone"] = "UTC"
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		for _, setting := range slices.Concat(settings, tcpKeepalives) {
			if _, err := conn.Exec(ctx, "SET "+setting); err != nil {
				return fmt.Errorf("connect: %w", err)
			}
		}
		for _, s := range statements {
			if _, err := conn.Prepare(ctx, s.name, s.sql); err != nil {
				return fmt.Errorf("connect: prepare %s: %w", s.name, err)
			}
		}
		return nil
	}
	p, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	return p, nil
}

// Close waits for connections in use and closes all.
func (db *DB) Close() {
	db.accept.Close()
	db.work.Close()
	db.lists.Close()
}

// Ping reports whether the database answers and has its schema, and whether the
// encryption keys open its canary: else KindUnavailable with the reason.
func (db *DB) Ping(ctx context.Context) error {
	if err := db.readSealing(ctx); err != nil {
		if eventhook.KindOf(err) != "" {
			return err
		}
		return fmt.Errorf("ping database: %w", err)
	}
	return db.KeysFit()
}

// inTx runs do in one transaction. It commits if do returns nil, else it rolls back
// and returns the error.
func (db *DB) inTx(ctx context.Context, act string, do func(pgx.Tx) error) error {
	if err := pgx.BeginFunc(ctx, db.work, do); err != nil {
		return translate(act, err)
	}
	return nil
}

// inTxIf runs do in one transaction. It commits if do returns true and no error, else
// it rolls back. Errors of the database are not translated.
func (db *DB) inTxIf(ctx context.Context, do func(pgx.Tx) (commit bool, err error)) error {
	tx, err := db.work.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // has no effect after Commit
	if commit, err := do(tx); err != nil || !commit {
		return err
	}
	return tx.Commit(ctx)
}

// SQLSTATE codes that say something to a caller.
const (
	codeQueryCanceled   = "57014"
	codeUniqueViolation = "23505"
	codeSerialization   = "40001"
	codeDeadlock        = "40P01"
	codeLockTimeout     = "55P03"
	codeForeignKey      = "23503"
)

// translate gives a database error its kind, once, at the edge.
func translate(act string, err error) error {
	if err == nil {
		return nil
	}
	if eventhook.KindOf(err) != "" {
		return err
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return eventhook.ErrNotFound
	}
	if isDown(err) {
		return &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "The database is not available; try again.", RetryAfter: time.Second,
			Cause: fmt.Errorf("%s: %w", act, err)}
	}
	if hasCode(err, codeQueryCanceled) {
		return &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "The list takes too long; narrow it, by time for instance.", RetryAfter: time.Second, Cause: err}
	}
	if pgErr, ok := asPgError(err); ok && pgErr.Code == codeUniqueViolation {
		return &eventhook.Error{Kind: eventhook.KindConflict, Message: "it exists already", Cause: err}
	}
	return fmt.Errorf("%s: %w", act, err)
}

// isDown reports whether the database could not be reached, or is stopping or
// starting: SQLSTATE classes 08 and 57P, and 53300, too many connections.
func isDown(err error) bool {
	if pgErr, ok := asPgError(err); ok {
		return strings.HasPrefix(pgErr.Code, "08") || strings.HasPrefix(pgErr.Code, "57P") || pgErr.Code == "53300"
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	_, ok := errors.AsType[*net.OpError](err)
	return ok || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

func hasCode(err error, codes ...string) bool {
	pgErr, ok := asPgError(err)
	if !ok {
		return false
	}
	for _, code := range codes {
		if pgErr.Code == code {
			return true
		}
	}
	return false
}

func asPgError(err error) (*pgconn.PgError, bool) { return errors.AsType[*pgconn.PgError](err) }

// workStatements are prepared on each connection of the work pool.
var workStatements = slices.Concat(effectStatements, []*statement{generationsSQL, settleEventsSQL, settleDeliveriesSQL, lockEventsSQL, concludeEventsSQL})

// What PostgreSQL says of a table, or its schema, that is not there.
const (
	codeUndefinedTable = "42P01"
	codeInvalidSchema  = "3F000"
)

// SchemaVersion is the version that the schema is in, 0 without one, and
// whether a migration of it stopped half-way.
func (db *DB) SchemaVersion(ctx context.Context) (version int64, dirty bool, err error) {
	err = db.work.QueryRow(ctx, `SELECT version, dirty FROM eventhook.schema_migrations`).Scan(&version, &dirty)
	if hasCode(err, codeUndefinedTable, codeInvalidSchema) {
		return 0, false, nil
	}
	return version, dirty, translate("read the schema's version", err)
}
