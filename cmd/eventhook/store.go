package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/migrations"
)

// store is the database of a command that does not use the API, with the keys and
// the configuration.
type store struct {
	*pg.DB
	keys   keys
	config configs.Config
}

// withStore opens the store, calls do, and closes the store. With noMigration,
// withStore does not migrate the schema and fails if it is not the newest.
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
	open := openStore
	if noMigration {
		open = openWithoutMigration
	}
	db, err := open(ctx, c, d, k, log)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := checkNewestSchema(ctx, db); err != nil {
		return err
	}
	if err := db.ReadSealing(ctx); err != nil {
		return err
	}
	return do(ctx, &store{db, k, c})
}

func checkNewestSchema(ctx context.Context, db *pg.DB) error {
	newest, err := migrations.Newest()
	if err != nil {
		return err
	}
	version, dirty, err := db.SchemaVersion(ctx)
	switch {
	case err != nil:
		return err
	case dirty:
		return fmt.Errorf("the database is dirty: a migration stopped in the middle, at version %d", version)
	case version < newest:
		return fmt.Errorf("the database has schema version %d, and version %d is required: run eventhook migrate first", version, newest)
	case version > newest:
		return fmt.Errorf("the database has schema version %d, and this eventhook supports versions up to %d: use a newer eventhook", version, newest)
	}
	return nil
}
