package receive

import (
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/internal/cli"
	"github.com/eventhook/eventhook/internal/cli/clitest"
)

// TestMain runs the program instead of the tests if a test started it in a process of its own.
func TestMain(m *testing.M) {
	if os.Getenv("EVENTHOOK_TEST_AS_MAIN") != "" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

var testClient = &http.Client{Timeout: 20 * time.Second}

// run runs the program with this command alone.
func run(args []string, stdout, stderr io.Writer) int {
	return cli.Run([]*cobra.Command{New()}, args, stdout, stderr)
}

func runCommand(args ...string) clitest.Output { return clitest.Run(run, args...) }
