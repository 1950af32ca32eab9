package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/telemetry"
	"github.com/eventhook/eventhook/migrations"
)

func newMigrate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate [up|down|version]",
		Short: "Migrate the database to the newest schema (serve does this at its start)",
		Long: `Migrate the database, and print the version of its schema. up (the default) migrates
it to the newest schema, down deletes the schema with all data of the gateway, and
version changes nothing. serve migrates up at its start.`,
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"up", "down", "version"},
	}
	s := addSettings(cmd)
	yes := cmd.Flags().Bool("yes", false, "confirm that down deletes all data")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		act := "up"
		if len(args) > 0 {
			act = args[0]
		}
		if act == "down" && !*yes {
			return input.Usagef("migrate down deletes all data of the gateway; confirm with --yes")
		}
		c, err := databaseConfig(s, cmd)
		if err != nil {
			return err
		}
		log := telemetry.NewLogger(cmd.ErrOrStderr(), c.Log.Level, c.Log.Format)
		d, err := openDatabase(cmd.Context(), c, log)
		if err != nil {
			return err
		}
		defer d.close(log)
		switch act {
		case "up":
			if err = d.checkURLs(cmd.Context()); err == nil {
				err = migrations.Up(cmd.Context(), d.url)
			}
		case "down":
			err = migrations.Down(cmd.Context(), d.url)
		}
		if err != nil {
			return err
		}
		v, dirty, err := migrations.Version(cmd.Context(), d.url)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "schema version %d%s\n", v, map[bool]string{true: ", dirty: a migration stopped in the middle"}[dirty])
		return err
	}
	return cmd
}

// databaseConfig returns the configuration of a command that needs only the
// database. The admin key and the encryption keys may be missing.
func databaseConfig(s *settings, cmd *cobra.Command) (configs.Config, error) {
	c, _, err := s.load(cmd)
	if err == nil || c.DatabaseURL == "" {
		return c, err
	}
	c.AdminKey, c.EncryptionKeys = "not-needed-and-not-used", []string{"not needed"}
	return c, c.Validate().Err("the configuration is not valid")
}
