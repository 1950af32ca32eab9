package brokers_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/eventhook/eventhook/internal/rabbittest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	rabbittest.Stop()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
