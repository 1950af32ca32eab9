package browsertest

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

// goodPage has no problem. Its script counts clicks and shows keys.
const goodPage = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Good</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">
<link rel="stylesheet" href="/style.css"></head><body><main><h1>Good</h1>
<p id="status">idle</p><p id="late" hidden>late</p><button id="button">Count</button>
<label>Name <input id="name"></label> <label>Size <select id="size"><option>small<option>large</select></label>
<p id="key"></p><a href="/next" id="next">Next</a></main><script src="/script.js"></script></body></html>`

const goodScript = `const by = id => document.getElementById(id);
let n = 0;
by("button").addEventListener("click", () => {
	by("status").textContent = "counted " + ++n;
	requestAnimationFrame(() => by("late").hidden = !by("late").hidden);
});
document.addEventListener("keydown", e => by("key").textContent += (e.ctrlKey ? "^" : "") + e.key + " ");
by("size").addEventListener("change", e => by("status").textContent = e.target.value);`

const goodStyle = `body { color: #111; background: #fff; font-size: 16px }
@media (prefers-color-scheme: dark) { body, a { color: #eee; background: #111 } }`

const policy = "default-src 'self'; img-src 'self' data: http://foreign.example; script-src 'self' 'nonce-own'"

// serve serves a page at /, with the script and the style of the good page. Every document has a
// strict Content-Security-Policy.
func serve(t *testing.T, page string) string {
	t.Helper()
	return serveWith(t, page, policy)
}

func serveWith(t *testing.T, page, policy string) string {
	t.Helper()
	bodies := map[string]struct{ kind, body string }{
		"/":          {"text/html; charset=utf-8", page},
		"/next":      {"text/html; charset=utf-8", strings.Replace(goodPage, "<h1>Good", "<h1>Next", 1)},
		"/script.js": {"text/javascript", goodScript}, "/style.css": {"text/css", goodStyle},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, found := bodies[r.URL.Path]
		if !found {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("Content-Type", answer.kind)
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		_, _ = io.WriteString(z, answer.body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// with returns the good page with more in its body.
func with(more string) string { return strings.Replace(goodPage, "</main>", more+"</main>", 1) }

func TestAGoodPagePasses(t *testing.T) {
	t.Parallel()
	p := New(t)
	p.Open(serve(t, goodPage))
	for _, v := range []Variant{Light, Dark, Phone} {
		p.View(v)
		p.Axe()
		if dark := Eval[bool](p, `matchMedia("(prefers-color-scheme: dark)").matches`); dark != (v.Scheme == "dark") {
			t.Errorf("%s: the dark scheme is %t", v.Name, dark)
		}
		if width := Eval[int64](p, `innerWidth`); width != v.Width {
			t.Errorf("%s: the width is %d, want %d", v.Name, width, v.Width)
		}
	}
	if n := p.Overflow(); n != 0 {
		t.Errorf("the page is %d pixels wider than the phone", n)
	}
	if problems := p.Problems(); len(problems) > 0 {
		t.Errorf("got the problems %q, want none", problems)
	}
}

func TestEachProblemFailsTheTest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ claim, page, want string }{
		{"an error on the console", with(`<script nonce="own">console.error("it broke", 7)</script>`), "console: it broke 7"},
		{"a failed assertion", with(`<script nonce="own">console.assert(false, "no")</script>`), "console: no"},
		{"a missing image", with(`<img alt="" src="/none.png">`), "/none.png"},
		{"an uncaught exception", with(`<script nonce="own">undefinedName()</script>`), "exception: Uncaught ReferenceError"},
		{"a rejected promise", with(`<script nonce="own">Promise.reject(new Error("no"))</script>`), "(in promise) Error: no"},
		{"an inline script", with(`<script>1</script>`), "csp: "},
		{"an inline style", with(`<p style="color: red">red</p>`), "csp: "},
		{"eval", with(`<script nonce="own">try { eval("1") } catch {}</script>`), "csp: "},
		{"a request to another origin", with(`<img alt="" src="http://foreign.example/x.png">`), "foreign request: http:"},
		{"a refused WebSocket", with(`<script nonce="own">new WebSocket("ws://127.0.0.1:1/")</script>`), "127.0.0.1:1"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			t.Parallel()
			url := serve(t, c.page)
			failures := failuresOf(t, func(tb testing.TB) { New(tb).Open(url) })
			if all := strings.Join(failures, "\n"); !strings.Contains(all, c.want) {
				t.Errorf("got the failures %q, want %q", all, c.want)
			}
		})
	}
}

func TestAllowedProblemsMustOccur(t *testing.T) {
	t.Parallel()
	url := serve(t, with(`<script nonce="own">console.error("expected")</script>`))
	if failures := failuresOf(t, func(tb testing.TB) {
		p := New(tb)
		p.Allow("console: expected")
		p.Open(url)
	}); len(failures) > 0 {
		t.Errorf("an allowed problem: got %q, want no failure", failures)
	}
	failures := failuresOf(t, func(tb testing.TB) {
		p := New(tb)
		p.Allow("another")
		p.Open(url)
	})
	if len(failures) != 2 {
		t.Errorf("another problem is allowed: got %q, want the problem and the permission without one", failures)
	}
}

func TestAxeReportsViolations(t *testing.T) {
	t.Parallel()
	url := serve(t, with(`<img id="photo" src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">`))
	failures := failuresOf(t, func(tb testing.TB) {
		p := New(tb)
		p.Open(url)
		p.Axe()
	})
	if len(failures) != 1 || !strings.Contains(failures[0], "image-alt") || !strings.Contains(failures[0], "#photo") {
		t.Errorf("got %q, want the rule image-alt at #photo and nothing else", failures)
	}
}

func TestAnActionFailsAfterItsTimeout(t *testing.T) {
	t.Parallel()
	url := serve(t, goodPage)
	for claim, act := range map[string]func(*Page){
		"an element that does not exist": func(p *Page) { p.WaitVisible("#none") },
		"a hidden element":               func(p *Page) { p.Click("#late") },
		"a text that does not come":      func(p *Page) { p.WaitText("#status", "done") },
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			failures := failuresOf(t, func(tb testing.TB) {
				p := New(tb)
				p.Open(url)
				p.limit = 50 * time.Millisecond
				act(p)
			})
			if len(failures) == 0 || !strings.Contains(failures[0], "deadline exceeded") {
				t.Errorf("got %q, want a timeout", failures)
			}
		})
	}
	for claim, act := range map[string]func(*Page){
		"a selector that is not valid": func(p *Page) { p.WaitVisible("##") },
		"an unknown key":               func(p *Page) { p.Press("Entre") },
		"an unknown option":            func(p *Page) { p.Choose("#size", "huge") },
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			if failures := failuresOf(t, func(tb testing.TB) {
				p := New(tb)
				p.Open(url)
				act(p)
			}); len(failures) == 0 {
				t.Error("got no failure")
			}
		})
	}
}

func TestActions(t *testing.T) {
	t.Parallel()
	p := New(t)
	p.Open(serve(t, goodPage))
	p.Click("#button")
	p.WaitText("#status", "counted 1")
	p.WaitVisible("#late")
	p.Click("#button")
	p.WaitGone("#late")
	p.Choose("#size", "large")
	p.WaitText("#status", "large")
	p.Press("j", "Escape", "Control+k", "?")
	if got, want := p.Text("#key"), "j Escape ^k ?"; got != want {
		t.Errorf("the page got the keys %q, want %q", got, want)
	}
	p.Fill("#name", "grün <b>")
	p.Fill("#name", "zwei")
	if got := Eval[string](p, `document.querySelector("#name").value`); got != "zwei" || p.Focused() != "name" {
		t.Errorf("the field contains %q and %s is focused, want zwei in name", got, p.Focused())
	}
	p.Fill("#name", "")
	if got := Eval[string](p, `document.querySelector("#name").value`); got != "" {
		t.Errorf("the field contains %q, want nothing", got)
	}
	p.Click("#next")
	p.WaitURL("/next")
	p.WaitText("h1", "Next")
	p.Back()
	p.WaitText("h1", "Good")
	if n := p.Count("option"); n != 2 {
		t.Errorf("got %d options, want 2", n)
	}
}

func TestEachPageHasItsOwnCookies(t *testing.T) {
	t.Parallel()
	url := serve(t, goodPage)
	one, two := New(t), New(t)
	one.Open(url)
	Eval[string](one, `document.cookie = "a=b"`)
	two.Open(url)
	if got := Eval[string](two, `document.cookie`); got != "" {
		t.Errorf("the second page has the cookie %q of the first", got)
	}
}

func TestVitalsMeasureLayoutShifts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		claim, page string
		shifts      bool
	}{
		{"a page at rest", goodPage, false},
		{"a page whose top grows after the first paint", with(`<script nonce="own">
			requestAnimationFrame(() => requestAnimationFrame(() => document.querySelector("h1").style.paddingTop = "300px"))
		</script>`), true},
	} {
		p := New(t)
		p.Open(serve(t, c.page))
		if c.shifts {
			p.WaitFor(`document.querySelector("h1").style.paddingTop !== ""`)
		}
		v := p.Vitals()
		if v.FirstPaint <= 0 || v.LargestShift > 0 != c.shifts || (v.ShiftedAt != "") != c.shifts {
			t.Errorf("%s: got %+v", c.claim, v)
		}
	}
}

func TestTransferredCountsCompressedBytes(t *testing.T) {
	t.Parallel()
	p := New(t)
	p.Open(serve(t, with(strings.Repeat("<p>the same words</p>", 2000))))
	got := p.Transferred()
	for name, size := range map[string]int{"document": got.Document, "style": got.Style, "script": got.Script} {
		if size < 50 || size > 2000 {
			t.Errorf("the %s has %d bytes, want its compressed size", name, size)
		}
	}
	before := len(p.Requests())
	p.Reload()
	if n := len(p.Requests()); n <= before || p.Requests()[0].Type != "Document" {
		t.Errorf("got %d requests after %d, the first %+v; want more, and first the document", n, before, p.Requests()[0])
	}
}

func TestOfflinePagesReachNoServer(t *testing.T) {
	t.Parallel()
	p := New(t)
	p.Open(serve(t, goodPage))
	p.Allow("ERR_INTERNET_DISCONNECTED")
	reached := func() bool { return Eval[bool](p, `fetch("/next").then(() => true, () => false)`) }
	p.Offline(true)
	if reached() {
		t.Error("the page reached the server while it was offline")
	}
	p.Offline(false)
	if !reached() {
		t.Error("the page did not reach the server after it was offline")
	}
}

func TestScreenshotsAreWrittenOnRequest(t *testing.T) {
	p := New(t)
	p.Open(serve(t, goodPage))
	file := filepath.Join(t.TempDir(), "images", "x.png")
	p.write(file)
	if raw, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(raw), "\x89PNG") {
		t.Errorf("got %.8q, %v; want a PNG", raw, err)
	}
	t.Setenv("UPDATE_SCREENSHOTS", "")
	p.Screenshot("never")
	if found, _ := filepath.Glob(filepath.Join(Root(t), "docs", "images", "never-*")); len(found) > 0 {
		t.Errorf("got the files %q without UPDATE_SCREENSHOTS", found)
	}
}
