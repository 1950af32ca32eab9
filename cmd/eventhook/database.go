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

// database is the gateway's PostgreSQL: the configured one, or a private one
// under the data folder.
type database struct {
	url      string
	embedded *pgembed.Server // nil with a configured one
	options  pgembed.Options
}

// openDatabase starts the private PostgreSQL if no other is configured.
func openDatabase(ctx context.Context, c configs.Config, log *slog.Logger) (*database, error) {
	if c.DatabaseURL != "" {
		return &database{url: c.DatabaseURL}, nil
	}
	options := pgembed.Options{DataDir: c.DataDir, Log: log}
	server, err := pgembed.Start(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("private PostgreSQL: %w", err)
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

// watch starts the private PostgreSQL again should it end, whether this
// process owns it or another one did, which has stopped it.
func (d *database) watch(ctx context.Context, log *slog.Logger) error {
	if d.embedded == nil {
		return nil
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if syscall.Kill(d.embedded.PID(), 0) == nil {
			continue
		}
		log.Error("the private PostgreSQL has ended; starting it again")
		if err := d.startAgain(ctx); err != nil && ctx.Err() == nil {
			log.Error("the private PostgreSQL does not start", "error", err)
		}
	}
}

func (d *database) startAgain(ctx context.Context) error {
	if d.embedded.Owned() {
		return d.embedded.Restart(ctx)
	}
	server, err := pgembed.Start(ctx, d.options) // owns it now, or attaches to who was faster
	if err == nil {
		d.embedded = server
	}
	return err
}

// refusePooler fails if the configured URL leads through a pooler that lends
// sessions by transaction.
func (d *database) refusePooler(ctx context.Context) error {
	if d.embedded != nil {
		return nil
	}
	return pg.RefusePooler(ctx, d.url)
}

// keys are the gateway's own secrets.
type keys struct {
	admin eventhook.Secret
	ring  *seal.Keyring
}

// openKeys takes the configured keys; with the private PostgreSQL those that
// are not configured are made once and kept in the data folder.
func openKeys(c configs.Config) (k keys, err error) {
	admin, encryption := c.AdminKey, c.EncryptionKeys
	if c.DatabaseURL == "" && admin == "" {
		if admin, _, err = datadir.ReadOrCreate(c.DataDir, "admin.key", api.NewKey); err != nil {
			return k, err
		}
	}
	if c.DatabaseURL == "" && len(encryption) == 0 {
		kept, _, err := datadir.ReadOrCreate(c.DataDir, "encryption.key", seal.NewKey)
		if err != nil {
			return k, err
		}
		encryption = strings.Fields(kept) // one a line, the newest first
	}
	k.admin = eventhook.NewSecret(admin)
	if k.ring, err = seal.New(encryption...); err != nil {
		return k, eventhook.Faults{{Location: "encryption_keys", Message: err.Error()}}.Err("the configuration is not valid")
	}
	return k, nil
}

// openStore brings the database to the newest schema and opens it.
func openStore(ctx context.Context, c configs.Config, d *database, k keys, log *slog.Logger) (*pg.DB, error) {
	if err := d.refusePooler(ctx); err != nil {
		return nil, err
	}
	if err := migrations.Up(ctx, d.url); err != nil {
		return nil, err
	}
	db, err := openAsItIs(ctx, c, d, k, log)
	if err != nil {
		return nil, err
	}
	if err := db.StartSealing(ctx); err != nil {
		db.Close()
		return nil, err
	}
	if err := db.MaintainPartitions(ctx, partitionsAhead, retention(c)); err != nil {
		log.Warn("cannot make the partitions now; trying again later, and events are stored meanwhile", "error", err)
	}
	return db, nil
}

// openAsItIs opens the database and does not touch its schema.
func openAsItIs(ctx context.Context, c configs.Config, d *database, k keys, log *slog.Logger) (*pg.DB, error) {
	return pg.Open(ctx, d.url, pg.Options{
		AcceptConns: c.Database.AcceptConns,
		WorkConns:   c.Database.WorkConns,
		ListConns:   c.Database.ListConns,
		KeyTTL:      time.Duration(c.Retention.EventsDays) * 24 * time.Hour,
		Sealer:      k.ring,
		Describe:    verify.Describe,
		FaultsOfNew: verify.ValidateChange,
		Matches:     match.FilterHolds,
		Log:         log,
	})
}

// operator is who runs commands that reach the database themselves.
var operator = eventhook.Actor{Type: eventhook.ActorOperator, Name: "command line"}

const partitionsAhead = 3 // days

func retention(c configs.Config) pg.Retention {
	return pg.Retention{EventsDays: c.Retention.EventsDays, BodiesDays: c.Retention.BodiesDays, DeliveriesDays: c.Retention.DeliveriesDays}
}
