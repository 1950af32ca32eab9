package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version and commit are set by the linker, see the Makefile.
var (
	version = "dev"
	commit  = ""
)

// revision returns the commit of the sources, "unknown" if neither the linker nor the go command
// recorded it.
func revision() string {
	if commit != "" {
		return commit
	}
	info, _ := debug.ReadBuildInfo()
	for i := 0; info != nil && i < len(info.Settings); i++ {
		if s := info.Settings[i]; s.Key == "vcs.revision" && s.Value != "" {
			return s.Value
		}
	}
	return "unknown"
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and the version of Go",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			goVersion := "unknown"
			if info, ok := debug.ReadBuildInfo(); ok {
				goVersion = info.GoVersion
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "eventhook %s (commit %s, %s)\n", version, revision(), goVersion)
			return err
		},
	}
}
