package cli

import (
	"io"

	"github.com/eventhook/eventhook/internal/cli/clitest"
)

const testAdminKey = "ehk_an-admin-key-for-tests"

func runCommand(args ...string) clitest.Output {
	return clitest.Run(func(args []string, stdout, stderr io.Writer) int { return Run(Commands("test"), args, stdout, stderr) }, args...)
}
