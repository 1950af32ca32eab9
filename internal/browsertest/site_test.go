package browsertest

import (
	"fmt"
	"strings"
	"testing"
)

// embedding returns a page with a document of another site, localhost, in a frame.
func embedding(t *testing.T, page string) (url, other string) {
	t.Helper()
	other = strings.Replace(serve(t, page), "127.0.0.1", "localhost", 1)
	html := with(fmt.Sprintf(`<iframe title="Other" src="%s/"></iframe>`, other))
	return serveWith(t, html, "default-src 'self'; img-src data:; frame-src "+other), other
}

func TestAFrameOfAnotherSiteIsUsedAsAPage(t *testing.T) {
	t.Parallel()
	url, other := embedding(t, goodPage)
	p := New(t)
	p.Open(url)
	frame := p.Frame(other)
	frame.ClickName("Count")
	frame.WaitText("#status", "counted 1")
	frame.ClickName("Next")
	frame.WaitText("h1", "Next")
	if got := p.Text("#status"); got != "idle" {
		t.Errorf("the page around the frame shows %q, want idle", got)
	}
}

func TestTheProblemsOfAFrameFailTheTest(t *testing.T) {
	t.Parallel()
	url, other := embedding(t, with(`<button onclick="1">Break</button>`))
	for claim, test := range map[string]func(p *Page){
		"csp: ":            func(p *Page) { p.Frame(other).ClickName("Break") },
		"foreign request:": func(*Page) {},
		"has no frame of":  func(p *Page) { p.Frame("http://localhost:1") },
	} {
		failures := failuresOf(t, func(tb testing.TB) {
			p := New(tb)
			p.Open(url)
			test(p)
		})
		if all := strings.Join(failures, "\n"); !strings.Contains(all, claim) {
			t.Errorf("got the failures %q, want %q", all, claim)
		}
	}
}

func TestTheClipboardHasWhatWasCopied(t *testing.T) {
	p := New(t)
	p.Open(serve(t, goodPage))
	p.Fill("#name", "some text")
	Eval[bool](p, `(document.querySelector("#name").select(), document.execCommand("copy"))`)
	if got := p.Clipboard(); got != "some text" {
		t.Errorf("the clipboard has %q, want the copied text", got)
	}
	if n := p.Count("textarea"); n > 0 {
		t.Error("the page has a field more than before")
	}
}
