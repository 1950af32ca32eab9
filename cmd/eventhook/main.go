// Command eventhook is the gateway: one binary that receives webhooks,
// verifies and stores each once, routes them, and hands the work out. Only
// this package knows all rooms; it wires them and holds no rule of its own.
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

// version is set at build time.
var version = "dev"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is main without the process around it.
func run(args []string, stdout, stderr io.Writer) int {
	commands := []*cobra.Command{newServe(), newMigrate(), newApply(), newExport(), newSecrets(), demo.New(startDemo), send.New(), receive.New(), verifycmd.New(publishedKeys), providers.New(), newOpenAPI(), newCheck(), newVersion()}
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
