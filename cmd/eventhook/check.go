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
		Short: "Validate the configuration and, with -f, the files of apply",
		Args:  cobra.NoArgs,
	}
	s := addSettings(cmd)
	file := cmd.Flags().StringP("file", "f", "", "YAML file of tenants, or folder of such files, to validate")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, log, err := s.load(cmd)
		if err == nil {
			_, err = loadCertificate(c, log)
		}
		if err != nil {
			return err
		}
		if *file != "" {
			tenants, err := configs.LoadTenants(*file, os.LookupEnv)
			if err == nil {
				err = checkTenants(c, tenants)
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
