package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/migrations"
)

// store is what a command works on that reaches the database itself.
type store struct {
	*pg.DB
	keys   keys
	config configs.Config
}

// withStore opens the store for as long as do works on it. asItIs does not
// bring the schema to the newest version, but fails if it is another. withStore
// fails if the encryption keys do not fit the database.
func (s *settings) withStore(cmd *cobra.Command, asItIs bool, do func(context.Context, *store) error) error {
	return s.withAnyKeys(cmd, asItIs, func(ctx context.Context, st *store) error {
		if err := st.KeysFit(); err != nil {
			return err
		}
		return do(ctx, st)
	})
}

// withAnyKeys is withStore for commands that work with other keys, too.
func (s *settings) withAnyKeys(cmd *cobra.Command, asItIs bool, do func(context.Context, *store) error) error {
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
	if asItIs {
		open = openAsItIs
	}
	db, err := open(ctx, c, d, k, log)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := needsNewestSchema(ctx, db); err != nil {
		return err
	}
	if err := db.ReadSealing(ctx); err != nil {
		return err
	}
	return do(ctx, &store{db, k, c})
}

func needsNewestSchema(ctx context.Context, db *pg.DB) error {
	newest, err := migrations.Newest()
	if err != nil {
		return err
	}
	version, dirty, err := db.SchemaVersion(ctx)
	switch {
	case err != nil:
		return err
	case dirty:
		return fmt.Errorf("a migration of the database stopped half-way, in version %d", version)
	case version < newest:
		return fmt.Errorf("the database has version %d of the schema, and %d is needed: run eventhook migrate first", version, newest)
	case version > newest:
		return fmt.Errorf("the database has version %d of the schema, of a newer eventhook than this one, which knows %d", version, newest)
	}
	return nil
}
