// Package consolebudgets_test holds the console to its budgets in a browser: the bytes and requests of
// a page, one stream for each visible page and none for a hidden one. Its benchmark measures each list
// among many rows.
package consolebudgets_test

import (
	"testing"

	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

func TestMain(m *testing.M) { gatewaytest.Main(m) }

// signIn opens the console as an admin.
func signIn(t testing.TB, g *gatewaytest.Gateway) *browsertest.Page {
	t.Helper()
	p := browsertest.New(t)
	p.Open(g.URL + "/console")
	p.WaitVisible("#key")
	p.Fill("#key", gatewaytest.AdminKey)
	p.Press("Enter")
	p.WaitGone("#key")
	p.WaitVisible("main")
	return p
}
