package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/configs"
)

func newCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Validate the configuration, and a file to apply; change nothing",
		Args:  cobra.NoArgs,
	}
	s := addSettings(cmd)
	file := cmd.Flags().StringP("file", "f", "", "YAML file of tenants, or folder of them, to validate too")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, _, err := s.load(cmd)
		if err != nil {
			return err
		}
		if *file != "" {
			tenants, err := configs.LoadTenants(*file, os.LookupEnv)
			if err == nil {
				err = mayApply(c, tenants)
			}
			if err != nil {
				return err
			}
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "the configuration is valid")
		return err
	}
	return cmd
}
