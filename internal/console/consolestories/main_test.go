// Package consolestories_test runs the console in a browser: every page with checks of accessibility,
// layout, budgets and hostile text, and the stories of the people who use it.
package consolestories_test

import (
	"testing"

	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

func TestMain(m *testing.M) { gatewaytest.Main(m) }

// attack is text of a sender that would set window.attacked if a page showed it as markup.
const attack = `"><img src=x onerror="window.attacked=1"><script>window.attacked=1</script>{{.}}`

// isAttacked fails the test if text of a sender became markup.
func isAttacked(t *testing.T, p *browsertest.Page) {
	t.Helper()
	if browsertest.Eval[bool](p, `window.attacked === 1`) {
		t.Errorf("%s: the text of a sender ran as a script", p.URL())
	}
	if n := p.Count(`img[src="x"]`); n > 0 {
		t.Errorf("%s: the text of a sender is markup", p.URL())
	}
}
