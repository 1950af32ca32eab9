package gatewaytest

import (
	"testing"

	"github.com/eventhook/eventhook/internal/browsertest"
)

// Attack is text of a sender that would set window.attacked if a page showed it as markup.
const Attack = `"><img src=x onerror="window.attacked=1"><script>window.attacked=1</script>{{.}}`

// CheckSafe fails the test if text of a sender became markup.
func CheckSafe(t testing.TB, p *browsertest.Page) {
	t.Helper()
	if browsertest.Eval[bool](p, `window.attacked === 1`) {
		t.Errorf("%s: the text of a sender ran as a script", p.URL())
	}
	if n := p.Count(`img[src="x"]`); n > 0 {
		t.Errorf("%s: the text of a sender is markup", p.URL())
	}
}

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
