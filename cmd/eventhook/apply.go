package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/telemetry"
	"github.com/eventhook/eventhook/migrations"
)

func newApply() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply -f FILE|FOLDER",
		Short: "Bring tenants, sources and routes to what a file says",
		Long: `Bring tenants, sources and routes to what a file says, one transaction per
tenant, and print what changes. What the file does not name stays. ${NAME} in a
text is replaced by the environment variable NAME.`,
		Args: cobra.NoArgs,
	}
	s := addSettings(cmd)
	file := cmd.Flags().StringP("file", "f", "", "YAML file, or folder of them")
	dryRun := cmd.Flags().Bool("dry-run", false, "print the plan and change nothing")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *file == "" {
			return usageError{fmt.Errorf("apply needs -f FILE or -f FOLDER")}
		}
		tenants, err := configs.LoadTenants(*file, os.LookupEnv)
		if err != nil {
			return err
		}
		c, log, err := s.load(cmd)
		if err != nil {
			return err
		}
		d, err := openDatabase(cmd.Context(), c, log)
		if err != nil {
			return err
		}
		defer d.close(log)
		k, err := openKeys(c)
		if err != nil {
			return err
		}
		db, err := openStore(cmd.Context(), c, d, k, log)
		if err != nil {
			return err
		}
		defer db.Close()
		for _, t := range tenants {
			changes, err := db.ApplyTenant(cmd.Context(), t, *dryRun)
			if err != nil {
				return fmt.Errorf("tenant %s: %w", t.Slug, err)
			}
			printPlan(cmd.OutOrStdout(), changes)
		}
		return nil
	}
	return cmd
}

func printPlan(w io.Writer, changes []eventhook.Change) {
	signs := map[eventhook.ChangeAction]string{eventhook.ChangeCreate: "+", eventhook.ChangeUpdate: "~", eventhook.ChangeUnchanged: "="}
	for _, c := range changes {
		_, _ = fmt.Fprintf(w, "%s %-9s %-7s %s\n", signs[c.Action], c.Action, c.Kind, c.Name)
	}
}

func newMigrate() *cobra.Command {
	cmd := &cobra.Command{
		Use:       "migrate [up|down|version]",
		Short:     "Bring the database to the newest schema (serve does it too)",
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
			return usageError{fmt.Errorf("migrate down deletes all data of the gateway; confirm with --yes")}
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
			err = migrations.Up(cmd.Context(), d.url)
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
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "schema version %d%s\n", v, map[bool]string{true: ", dirty: a migration stopped half-way"}[dirty])
		return err
	}
	return cmd
}

// databaseConfig is the configuration for a command that only needs the
// database: keys may be missing.
func databaseConfig(s *settings, cmd *cobra.Command) (configs.Config, error) {
	c, _, err := s.load(cmd)
	if err == nil || c.DatabaseURL == "" {
		return c, err
	}
	c.AdminKey, c.EncryptionKeys = "not needed, not used", []string{"not needed"}
	return c, c.Validate().Err("the configuration is not valid")
}

func newCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Validate the configuration, and a file to apply; change nothing",
		Args:  cobra.NoArgs,
	}
	s := addSettings(cmd)
	file := cmd.Flags().StringP("file", "f", "", "YAML file of tenants, or folder of them, to validate too")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if _, _, err := s.load(cmd); err != nil {
			return err
		}
		if *file != "" {
			if _, err := configs.LoadTenants(*file, os.LookupEnv); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "the configuration is valid")
		return err
	}
	return cmd
}
