// Package consolepages_test opens every page of the console in a browser, in two scenes: a tenant whose
// texts are hostile, and a tenant as a company has it, of which `make screenshots` takes the images of
// the documentation.
package consolepages_test

import (
	"testing"

	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

func TestMain(m *testing.M) { gatewaytest.Main(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
