// Command eventhook is the gateway: one binary that receives webhooks,
// verifies them, stores each once, routes them, and delivers them to workers and
// subscribers. This package is the only one that imports all others: it connects
// the parts of the gateway and contains no rules of its own. The commands that use
// a gateway's API are in internal/cli.
package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/internal/cli"
	agentcmd "github.com/eventhook/eventhook/internal/cli/agent"
	"github.com/eventhook/eventhook/internal/cli/demo"
	"github.com/eventhook/eventhook/internal/cli/providers"
	"github.com/eventhook/eventhook/internal/cli/receive"
	"github.com/eventhook/eventhook/internal/cli/send"
	verifycmd "github.com/eventhook/eventhook/internal/cli/verify"
	"github.com/eventhook/eventhook/internal/telemetry"
)

func main() {
	trustBundledRoots()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run executes a command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	commands := []*cobra.Command{
		newServe(), newMigrate(), newApply(), newExport(), newCheck(), newDoctor(), newSecrets(), newOpenAPI(), newVersion(), newHealth(), newMCP(),
		demo.New(startDemo), send.New(), receive.New(), verifycmd.New(publishedKeys), providers.New(),
		agentcmd.New(version, telemetry.NewLogger),
	}
	return cli.RunWith(errorPrinter(args), append(commands, cli.Commands(version)...), args, stdout, stderr)
}
