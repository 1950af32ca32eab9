package gatewaytest

import (
	"github.com/eventhook/eventhook/internal/browsertest"
)

// Confirm proceeds in the dialog of a form, which must say what will happen.
func Confirm(p *browsertest.Page, says string) {
	p.WaitText("#confirm[open]", says)
	p.Click("[data-confirm-proceed]")
}

// Copied returns the text that a button of the page copied.
func Copied(p *browsertest.Page) string {
	p.WaitText("[data-announce]", "Copied.")
	return p.Clipboard()
}

// Must returns a value, and panics with an error, which fails the test binary.
func Must[V any](v V, err error) V {
	if err != nil {
		panic(err.Error())
	}
	return v
}
