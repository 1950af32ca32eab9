package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/pg"
)

// store is the database of a command that does not use the API, with the keys and
// the configuration.
type store struct {
	*pg.DB
	keys   keys
	config configs.Config
}

// withConfiguredStore is withStore without a migration, for a configured database only: it
// neither starts the private PostgreSQL nor creates a schema.
func (s *settings) withConfiguredStore(cmd *cobra.Command, do func(context.Context, *store) error) error {
	c, _, err := s.load(cmd)
	if err == nil && c.DatabaseURL == "" {
		err = input.Usagef("--database requires DATABASE_URL or --database-url; without --database the command calls the gateway at --server")
	}
	if err != nil {
		return err
	}
	return s.withStore(cmd, true, do)
}

// withStore opens the store, calls do, and closes the store. With noMigration,
// withStore does not migrate the schema and fails if it is not supported.
// withStore fails if the encryption keys do not match the database.
func (s *settings) withStore(cmd *cobra.Command, noMigration bool, do func(context.Context, *store) error) error {
	return s.withAnyKeys(cmd, noMigration, func(ctx context.Context, st *store) error {
		if err := st.KeysFit(); err != nil {
			return err
		}
		return do(ctx, st)
	})
}

// withAnyKeys is withStore without the check of the encryption keys.
func (s *settings) withAnyKeys(cmd *cobra.Command, noMigration bool, do func(context.Context, *store) error) error {
	ctx := cmd.Context()
	c, log, err := s.load(cmd)
	if err != nil {
		return err
	}
	d, err := openDatabase(ctx, c, log)
	if err != nil {
		return err
	}
	defer d.close(log)
	k, err := openKeys(c)
	if err != nil {
		return err
	}
	db, err := openWithoutMigration(ctx, c, d, k, log)
	if err != nil {
		return err
	}
	defer db.Close()
	if !noMigration {
		if err := prepareStore(ctx, c, d, db, log); err != nil {
			return err
		}
	}
	if err := db.CheckSchema(ctx); err != nil {
		return err
	}
	if err := db.ReadSealing(ctx); err != nil {
		return err
	}
	return do(ctx, &store{db, k, c})
}
