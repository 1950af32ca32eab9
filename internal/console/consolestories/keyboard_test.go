package consolestories_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// typist uses the list of events without a pointer.
type typist struct {
	*browsertest.Page
	t    *testing.T
	rows []string // paths of the events, as the list has them
}

// TestKeyboard moves, selects, acts and leaves with keys.
func TestKeyboard(t *testing.T) {
	g := gatewaytest.Shared(t)
	n := g.Tenant(t, "keyboard")
	const events = 4
	for range events {
		n.Push("")
	}
	k := &typist{Page: g.SignIn(t, n.Key("read", "manage"), "/console/t/"+n.Slug+"/events?event_type=push"), t: t}
	k.shows("Events")
	k.rows = browsertest.Eval[[]string](k.Page, `[...document.querySelectorAll("tbody tr")].map(row => row.dataset.href)`)
	if len(k.rows) != events {
		t.Fatalf("the list has %d rows, want %d", len(k.rows), events)
	}
	k.searches()
	k.moves()
	k.selects()
	k.confirms()
	k.opensAndLeaves()
	k.asksForHelp()
}

// searches presses a key that is text while the field has the focus.
func (k *typist) searches() {
	k.Press("/")
	if focused := k.Focused(); focused != "search" {
		k.t.Fatalf("/ focuses %q, want the search", focused)
	}
	k.Press("j")
	if text := browsertest.Eval[string](k.Page, `document.querySelector("#search").value`); text != "j" {
		k.t.Errorf("the search has the text %q, want j", text)
	}
	k.Press("Escape")
	k.wantCurrent(-1)
}

// wantCurrent checks the current row; -1: there is none.
func (k *typist) wantCurrent(want int) {
	k.t.Helper()
	got := browsertest.Eval[int](k.Page, `[...document.querySelectorAll("tbody tr")].findIndex(row => row.matches(".current"))`)
	if got != want {
		k.t.Errorf("the current row is %d, want %d", got, want)
	}
}

func (k *typist) moves() {
	k.Press("k", "k") // the first row, which has no previous one
	k.wantCurrent(0)
	k.Press("j", "j", "j", "j", "j")
	k.wantCurrent(len(k.rows) - 1)
	k.Press("k", "k")
	k.wantCurrent(1)
}

// selects selects the rows 1 and 2, which the URL keeps.
func (k *typist) selects() {
	k.WaitGone("[data-bulk]")
	k.Press("x", "j", "x")
	k.WaitText("[data-bulk]", "2 selected")
	if n := strings.Count(k.URL(), "selected="); n != 2 {
		k.t.Errorf("the URL has %d selected rows, want 2: %s", n, k.URL())
	}
	k.Reload()
	k.shows("Events")
	k.WaitText("[data-bulk]", "2 selected")
	k.Press("j", "x")
	k.WaitText("[data-bulk]", "3 selected")
	k.Press("x")
	k.WaitText("[data-bulk]", "2 selected")
}

// confirms sees the count before the act, and does not act.
func (k *typist) confirms() {
	before := len(k.Requests())
	browsertest.Eval[bool](k.Page, `(document.querySelector("[data-bulk] button[value=again]").focus(), true)`)
	k.Press("Enter")
	k.WaitText("#confirm[open]", "Run 2 events again?")
	k.Press("Escape")
	k.WaitGone("#confirm")
	for _, r := range k.Requests()[before:] {
		if r.Method == "POST" {
			k.t.Errorf("a cancelled act sent %s %s", r.Method, r.URL)
		}
	}
}

func (k *typist) opensAndLeaves() {
	k.Open(strings.SplitN(k.URL(), "&selected", 2)[0])
	k.shows("Events")
	k.Press("j", "j", "Enter")
	k.shows("push")
	k.WaitURL(k.rows[1])
	k.Press("Escape")
	k.shows("Events")
	k.Press("g", "s")
	k.shows("Sources")
}

// shows waits until a page with a heading takes keys.
func (k *typist) shows(heading string) {
	k.t.Helper()
	k.WaitFor(fmt.Sprintf(`document.readyState === "complete" && document.querySelector("h1").innerText === %q`, heading))
}

func (k *typist) asksForHelp() {
	k.Press("?")
	for _, key := range []string{"/", "j", "enter", "x", "esc"} {
		k.WaitFor(fmt.Sprintf(`[...document.querySelectorAll("#keys[open] kbd")].some(key => key.innerText === %q)`, key))
	}
	k.Press("Escape")
	k.WaitGone("#keys")
	k.Press("g", "e")
	k.shows("Events")
}
