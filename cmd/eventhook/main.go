// Command eventhook is the gateway: one binary that receives webhooks,
// verifies them, stores each once, routes them, and delivers them to workers and
// subscribers. This package is the only one that imports all others: it connects
// the parts of the gateway and contains no rules of its own. The commands that use
// a gateway's API are in internal/cli.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/internal/cli"
	"github.com/eventhook/eventhook/internal/cli/demo"
	"github.com/eventhook/eventhook/internal/cli/providers"
	"github.com/eventhook/eventhook/internal/cli/receive"
	"github.com/eventhook/eventhook/internal/cli/send"
	verifycmd "github.com/eventhook/eventhook/internal/cli/verify"
)

// version is set by the linker, see the Makefile.
var version = "dev"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run executes a command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	commands := []*cobra.Command{
		newServe(), newMigrate(), newApply(), newExport(), newCheck(), newSecrets(), newOpenAPI(), newVersion(),
		demo.New(startDemo), send.New(), receive.New(), verifycmd.New(publishedKeys), providers.New(),
	}
	return cli.Run(append(commands, cli.Commands(version)...), args, stdout, stderr)
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			goVersion := "unknown"
			if info, ok := debug.ReadBuildInfo(); ok {
				goVersion = info.GoVersion
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "eventhook %s (%s)\n", version, goVersion)
			return err
		},
	}
}
