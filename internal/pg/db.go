// Package pg stores all data of the gateway in PostgreSQL. It contains all SQL of the
// gateway, each statement whole and beside the method that runs it. A method is one
// atomic act: no transaction leaves the package. DB implements the interfaces of the
// packages that use it, such as ingest.Store, route.Queue and outbound.Queue. Errors that
// a caller can act upon are eventhook.Errors; all other errors mean that the database
// failed. Every method is safe for concurrent use, also with other instances on the same
// database. The comment of a statement or a method ends with the indexes that it uses, such
// as "Primary key, one partition each."
//
// Two transactions store the effects of events, with the same statements
// (event_effects.go): Accept, together with new events, and SettleEvents, for leased
// events. The status of an event with open deliveries to targets of its routes follows
// from these deliveries (event_conclude.go).
package pg

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/roundrobin"
)

// Sealer encrypts secrets for the database, and decrypts them. A place is a row and a
// column. A text that was sealed for a place begins with "enc2:", and Open fails for any
// other place. A text that was sealed without a place begins with "enc:". See package seal.
type Sealer interface {
	Seal(plain, place string) (string, error)
	Open(sealed, place string) (string, error)
}

// Options configure a DB.
type Options struct {
	// PoolerURL is the address of a connection pooler in transaction mode for the same database,
	// for lists of the management API. If it is empty, lists use the URL of Open.
	PoolerURL string
	// ReadURL is the URL of a streaming replica for lists, "" for none. Lists are read from the
	// primary while the replica is more than ReadMaxLag behind; see WatchReplica.
	ReadURL     string
	ReadMaxLag  time.Duration
	AcceptConns int           // connections that only accept events
	WorkConns   int           // connections for everything else but lists
	ListConns   int           // connections for lists of the management API
	KeyTTL      time.Duration // retention of the idempotency keys of events; 0: no end
	Sealer      Sealer
	// Schema is the newest version of the schema that the program knows; 0 accepts every version.
	Schema int64
	// Describe returns the public part of a source's verifier as a JSON object, and all
	// of its secrets as one text, which is only compared. If nil, the verifier has no
	// public part.
	Describe func(verifier eventhook.Secret) (public json.RawMessage, secrets string, err error)
	// FaultsOfNew returns the faults of the verifier want of a source that its current
	// verifier have does not have. have is zero for a new source. A configuration with
	// such faults is not applied. If nil, no verifier has faults.
	FaultsOfNew func(have, want eventhook.Secret) eventhook.Faults
	// Matches reports whether a subscription's filter matches a system event. An invalid
	// filter matches no event. If nil, every filter matches.
	Matches func(filter json.RawMessage, e *eventhook.Event) bool
	// OrderKey returns the key of a system event for a subscription's OrderedBy, or zero. If
	// nil, deliveries of system events are not ordered.
	OrderKey func(orderedBy string, e *eventhook.Event) eventhook.OrderKey
	Log      *slog.Logger
	Now      func() time.Time // nil means time.Now
}

// DB is the gateway's store. It has three pools of connections: one for accepting events,
// which never waits for other work; one for lists of the management API, whose statements
// have a timeout; and one for all other work. Lists may have a fourth, on a replica.
type DB struct {
	instance    eventhook.InstanceID
	accept      *pgxpool.Pool
	work        *pgxpool.Pool
	lists       *listPool
	replica     *replica // nil if there is none
	hub         hub
	feed        *eventFeed
	claims      *roundrobin.Queues[eventhook.TenantID, struct{}]
	changes     *roundrobin.Slots[eventhook.TenantID] // of the configuration
	keyTTL      time.Duration
	sealer      Sealer
	describe    func(eventhook.Secret) (json.RawMessage, string, error)
	matches     func(json.RawMessage, *eventhook.Event) bool
	orderKey    func(string, *eventhook.Event) eventhook.OrderKey
	faultsOfNew func(have, want eventhook.Secret) eventhook.Faults
	log         *slog.Logger
	now         func() time.Time

	schema     int64                           // Options.Schema
	schemaErr  atomic.Pointer[eventhook.Error] // nil while the schema is supported, or before it was read
	sealing    atomic.Pointer[sealing]         // nil before it was read
	observer   Observer
	unreadable atomic.Int64 // secrets that did not open

	acceptBufs         sync.Pool // of *acceptColumns
	publishBufs        sync.Pool // of *columns
	settleBufs         sync.Pool // of *settleColumns
	deliverySettleBufs sync.Pool // of *deliverySettleColumns

	sweptKeys, sweptExecutions sweepPosition
	sweptPromises              sweepPosition

	sweptTenantUsage, sweptSourceUsage, sweptSubscriptionUsage, sweptTraffic sweepPosition

	keptPartitions sync.Map // names of partitions that were logged as kept past their retention

	replayRound replayRound

	lifecycle      *lifecycleFlags
	lifecycleAfter atomic.Pointer[eventhook.TenantID] // where PublishLifecycle continues

	lockWait time.Duration // the constant lockWait; shorter in tests
}

// Open creates a DB. The URL is that of PostgreSQL itself: a pooler in transaction mode does not
// provide the sessions that Open's pools need. Open fails if a URL is not valid. It does not connect to the server;
// see Ping.
func Open(ctx context.Context, url string, o Options) (*DB, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	now := o.Now
	o.Now = func() time.Time { return now().Truncate(time.Microsecond) } // PostgreSQL stores microseconds: a new value is returned as it will be read
	if o.Describe == nil {
		o.Describe = func(v eventhook.Secret) (json.RawMessage, string, error) { return nil, v.Reveal(), nil }
	}
	if o.FaultsOfNew == nil {
		o.FaultsOfNew = func(_, _ eventhook.Secret) eventhook.Faults { return nil }
	}
	if o.Matches == nil {
		o.Matches = func(json.RawMessage, *eventhook.Event) bool { return true }
	}
	if o.OrderKey == nil {
		o.OrderKey = func(string, *eventhook.Event) eventhook.OrderKey { return eventhook.OrderKey{} }
	}
	db := &DB{instance: eventhook.NewID[eventhook.Instance](o.Now()), keyTTL: o.KeyTTL, sealer: o.Sealer, schema: o.Schema, describe: o.Describe, matches: o.Matches, orderKey: o.OrderKey,
		faultsOfNew: o.FaultsOfNew, log: o.Log, now: o.Now, observer: unobserved{}, lockWait: lockWait}
	db.hub.topics, db.hub.outgoing = map[string]chan struct{}{}, make(chan struct{}, 1)
	db.feed = newEventFeed(&db.hub)
	db.claims = roundrobin.NewQueues[eventhook.TenantID, struct{}](max(o.WorkConns/claimSlotShare, 1))
	db.changes = roundrobin.NewSlots[eventhook.TenantID](o.WorkConns/2, o.WorkConns/changeSlotShare, maxWaitingChanges)
	db.lifecycle = db.newLifecycleFlags()
	db.hub.self = db.instance.String()
	db.acceptBufs.New = func() any { return newAcceptColumns(db.instance) }
	db.publishBufs.New = func() any { return newPublishColumns(db.instance) }
	db.settleBufs.New = func() any { return newSettleColumns(db.instance) }
	db.deliverySettleBufs.New = func() any { return newDeliverySettleColumns() }
	var err error
	db.accept, err = pool(ctx, url, o.AcceptConns, acceptStatements, durableWithGenericPlans)
	if err != nil {
		return nil, err
	}
	db.work, err = pool(ctx, url, o.WorkConns, workStatements, indexScansWithGenericPlans)
	if err != nil {
		db.accept.Close()
		return nil, err
	}
	db.lists, err = newListPool(ctx, cmp.Or(o.PoolerURL, url), o.ListConns, o.PoolerURL != "")
	if err != nil {
		db.accept.Close()
		db.work.Close()
		return nil, err
	}
	if db.replica, err = newReplica(ctx, o, now); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// indexScansOnly keeps the planner from caching a plan that reads whole tables. It would
// choose such a plan while the tables are small, and keep it while they grow by thousands
// of rows a second until the next ANALYZE. Every statement of the work pool is written
// for an index.
var indexScansOnly = []string{"enable_hashjoin = off", "enable_mergejoin = off", "enable_seqscan = off"}

// indexScansWithGenericPlans also keeps the generic plans. The planner estimates that the limit
// of a claim, which is a parameter, takes a tenth of the rows, so it would make a new plan for
// each claim: that took more than half of the time of a claim.
var indexScansWithGenericPlans = slices.Concat(indexScansOnly, []string{"plan_cache_mode = force_generic_plan"})

// durableWithGenericPlans makes accepted events durable regardless of the defaults of the
// role and the server. It keeps the generic plans of the statements, which use indexes.
var durableWithGenericPlans = []string{"synchronous_commit = on", "plan_cache_mode = force_generic_plan", "enable_seqscan = off"}

// tcpKeepalives makes the server end a session half a minute after its instance lost the
// network. By default it would keep the session, with its transaction and locks, for two
// hours.
var tcpKeepalives = []string{"tcp_keepalives_idle = 10", "tcp_keepalives_interval = 5", "tcp_keepalives_count = 3"}

func pool(ctx context.Context, url string, conns int, statements []*statement, settings []string) (*pgxpool.Pool, error) {
	config, err := poolConfig(url, conns)
	if err != nil {
		return nil, err
	}
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

func poolConfig(url string, conns int) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, &eventhook.Error{Kind: eventhook.KindInvalid, Message: "DATABASE_URL is not a PostgreSQL URL such as postgres://host:5432/database"}
	}
	config.MaxConns = int32(max(conns, 1))
	config.MaxConnLifetimeJitter = time.Minute
	config.ConnConfig.ConnectTimeout = 5 * time.Second
	config.ConnConfig.RuntimeParams["application_name"] = "eventhook"
	config.ConnConfig.RuntimeParams["timezone"] = "UTC"
	return config, nil
}

// Instance returns the id under which this instance leases deliveries. Each DB has another one.
func (db *DB) Instance() eventhook.InstanceID { return db.instance }

// Close waits for connections in use and closes all connections.
func (db *DB) Close() {
	db.accept.Close()
	db.work.Close()
	db.lists.Close()
	if db.replica != nil {
		db.replica.pool.Close()
	}
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

// workStatements are prepared on each connection of the work pool.
var workStatements = slices.Concat(effectStatements,
	[]*statement{generationsSQL, settleEventsSQL, settleDeliveriesSQL, openOutagesSQL, lockEventsSQL, concludeEventsSQL})
