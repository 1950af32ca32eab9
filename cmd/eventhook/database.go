package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/datadir"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/internal/pgembed"
	"github.com/eventhook/eventhook/internal/seal"
	"github.com/eventhook/eventhook/migrations"
	"github.com/eventhook/eventhook/outbound/match"
	"github.com/eventhook/eventhook/verify"
)

// database is the gateway's PostgreSQL: the configured server, or a private server
// whose data is in the data folder.
type database struct {
	url      string          // of PostgreSQL itself
	pooler   string          // of a connection pooler in front of it, "" for none
	embedded *pgembed.Server // nil if a server is configured
	options  pgembed.Options
}

// openDatabase starts the private PostgreSQL if no server is configured.
func openDatabase(ctx context.Context, c configs.Config, log *slog.Logger) (*database, error) {
	switch {
	case c.Database.DirectURL != "":
		return &database{url: c.Database.DirectURL, pooler: c.DatabaseURL}, nil
	case c.DatabaseURL != "":
		return &database{url: c.DatabaseURL}, nil
	}
	options := pgembed.Options{DataDir: c.DataDir, Log: log}
	server, err := pgembed.Start(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("private PostgreSQL, which runs without a DATABASE_URL: %w", err)
	}
	return &database{url: server.DSN(pgembed.Database), embedded: server, options: options}, nil
}

// close stops the private PostgreSQL if this process owns it.
func (d *database) close(log *slog.Logger) {
	if d.embedded == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := d.embedded.Stop(ctx); err != nil {
		log.Error("the private PostgreSQL did not stop cleanly; it recovers at the next start", "error", err)
	}
}

// watch restarts the private PostgreSQL when it ends, until ctx ends. Another
// instance may have started the server and stopped it.
func (d *database) watch(ctx context.Context, log *slog.Logger) error {
	if d.embedded == nil {
		return nil
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	failure := "" // of the last restart; each failure is logged once
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if syscall.Kill(d.embedded.PID(), 0) == nil {
			continue
		}
		if failure == "" {
			log.Error("the private PostgreSQL has ended; restarting it")
		}
		err := d.restart(ctx)
		if err != nil && ctx.Err() == nil && err.Error() != failure {
			log.Error("the private PostgreSQL does not start; trying again", "error", err)
		}
		if failure = ""; err != nil {
			failure = err.Error()
		}
	}
}

func (d *database) restart(ctx context.Context) error {
	if d.embedded.Owned() {
		return d.embedded.Restart(ctx)
	}
	server, err := pgembed.Start(ctx, d.options) // starts the server, or connects to the server that another instance started meanwhile
	if err == nil {
		d.embedded = server
	}
	return err
}

// checkURLs fails if the URL of PostgreSQL itself is that of a connection pooler in transaction
// mode.
func (d *database) checkURLs(ctx context.Context) error {
	const isPooler = " is the address of a connection pooler in transaction mode (such as PgBouncer with pool_mode = transaction), " +
		"which shares one session of PostgreSQL among many clients. The gateway needs sessions of its own, for LISTEN, prepared statements and settings: "
	switch {
	case d.embedded != nil || !pg.IsPooler(ctx, d.url):
		return nil
	case d.pooler != "":
		return &eventhook.Error{Kind: eventhook.KindInvalid, Message: "DATABASE_DIRECT_URL" + isPooler + "set it to the address of PostgreSQL itself"}
	}
	return &eventhook.Error{Kind: eventhook.KindInvalid, Message: "DATABASE_URL" + isPooler +
		"set DATABASE_DIRECT_URL to the address of PostgreSQL itself, or the pool_mode of the pooler to session"}
}

// keys are the gateway's own secrets: the admin keys and the encryption keys.
type keys struct {
	admin     []eventhook.Secret // the newest first
	adminRead []eventhook.Secret
	ring      *seal.Keyring
}

// openKeys returns the configured keys. With the private PostgreSQL, openKeys
// generates a key that is not configured and stores it in the data folder.
func openKeys(c configs.Config) (k keys, err error) {
	encryption := c.EncryptionKeys
	if c.DatabaseURL == "" && c.AdminKey == "" {
		if c.AdminKey, _, err = datadir.ReadOrCreate(c.DataDir, "admin.key", api.NewKey); err != nil {
			return k, err
		}
	}
	if c.DatabaseURL == "" && len(encryption) == 0 {
		stored, _, err := datadir.ReadOrCreate(c.DataDir, "encryption.key", seal.NewKey)
		if err != nil {
			return k, err
		}
		encryption = strings.Fields(stored) // one key per line, the newest first
	}
	k.admin, k.adminRead = secretsOf(c.AdminKeys()), secretsOf(c.AdminReadKeys())
	if k.ring, err = seal.New(encryption...); err != nil {
		return k, eventhook.Faults{{Location: "encryption_keys", Message: err.Error()}}.Err("the configuration is not valid")
	}
	return k, nil
}

func secretsOf(texts []string) []eventhook.Secret {
	var secrets []eventhook.Secret
	for _, text := range texts {
		secrets = append(secrets, eventhook.NewSecret(text))
	}
	return secrets
}

// openStore opens the database and prepares it for work. If it cannot be reached, and the instance can
// accept webhooks without it, isPrepared is false: prepareStore must be called later.
func openStore(ctx context.Context, c configs.Config, d *database, k keys, log *slog.Logger) (db *pg.DB, isPrepared bool, err error) {
	if db, err = connectStore(ctx, c, d, k, log); err != nil {
		return nil, false, err
	}
	err = syncClock(ctx, db)
	if err != nil && c.Ingest.Log.IsOn() && c.HasRole(configs.RoleIngest) {
		log.Warn("the database cannot be reached; webhooks are accepted into the log meanwhile", "error", err)
		db.Unreached()
		return db, false, nil
	}
	if err == nil {
		err = prepareStore(ctx, c, d, db, log)
	}
	if err != nil {
		db.Close()
		return nil, false, err
	}
	return db, true, nil
}

// prepareStore migrates the database to the newest schema and prepares it for work.
func prepareStore(ctx context.Context, c configs.Config, d *database, db *pg.DB, log *slog.Logger) error {
	if err := d.checkURLs(ctx); err != nil {
		return err
	}
	if err := migrations.Up(ctx, d.url); err != nil {
		return pg.Explain(err)
	}
	if err := db.StartFit(ctx); err != nil {
		return err
	}
	if db.Fit() != nil {
		return nil //nolint:nilerr // the instance starts, and is not ready until the cause is gone
	}
	keep := pg.Retention{} // for ever
	if c.HasRole(configs.RoleDispatch) {
		keep = retention(c)
	}
	if err := db.MaintainPartitions(ctx, partitionsAhead, keep); err != nil {
		log.Warn("cannot create partitions; the gateway stores events and retries later", "error", err)
	}
	return nil
}

// openWithoutMigration opens the database, sets the clock to its time, and does not change its schema.
func openWithoutMigration(ctx context.Context, c configs.Config, d *database, k keys, log *slog.Logger) (*pg.DB, error) {
	db, err := connectStore(ctx, c, d, k, log)
	if err != nil {
		return nil, err
	}
	if err := syncClock(ctx, db); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// connectStore returns the store of a database. It makes no connection.
func connectStore(ctx context.Context, c configs.Config, d *database, k keys, log *slog.Logger) (*pg.DB, error) {
	newest, err := migrations.Newest()
	if err != nil {
		return nil, err
	}
	return pg.Open(ctx, d.url, pg.Options{
		Schema:      newest,
		PoolerURL:   d.pooler,
		ReadURL:     c.Database.ReadURL,
		ReadMaxLag:  c.Database.ReadMaxLag,
		AcceptConns: c.Database.AcceptConns,
		WorkConns:   c.Database.WorkConns,
		ListConns:   c.Database.ListConns,
		KeyTTL:      time.Duration(c.Retention.EventsDays) * 24 * time.Hour,
		Sealer:      k.ring,
		Describe:    verify.Describe,
		FaultsOfNew: verify.ValidateChange,
		Matches:     match.FilterHolds,
		OrderKey:    match.OrderKey,
		Log:         log,
		Now:         now,
	})
}

// operator is the actor in the audit log for commands that use the database directly.
var operator = eventhook.Actor{Type: eventhook.ActorOperator, Name: "command line"}

// partitionsAhead is the number of days for which partitions are created in advance.
const partitionsAhead = 3

func retention(c configs.Config) pg.Retention {
	return pg.Retention{EventsDays: c.Retention.EventsDays, BodiesDays: c.Retention.BodiesDays, DeliveriesDays: c.Retention.DeliveriesDays}
}
