package send

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/internal/cli"
	"github.com/eventhook/eventhook/internal/cli/clitest"
)

const testSecret = "a-secret-for-tests"

// run runs the program with this command alone.
func run(args []string, stdout, stderr io.Writer) int {
	return cli.Run([]*cobra.Command{New()}, args, stdout, stderr)
}

func runCommand(args ...string) clitest.Output { return clitest.Run(run, args...) }
