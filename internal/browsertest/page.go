package browsertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
)

// actionLimit is the timeout of each action. It allows for a busy machine.
const actionLimit = 60 * time.Second

// Page is a tab with a browser context of its own. Its methods fail the test at once if they do not
// succeed within the timeout. One goroutine at a time may use a Page.
type Page struct {
	t        testing.TB
	ctx      context.Context //nolint:containedctx // is the page, for chromedp
	limit    time.Duration   // of each action
	problems problems
	traffic  traffic
}

// New returns an empty page in the variant Light. When the test ends, the page is closed, and the
// test fails if the page had problems.
func New(t testing.TB) *Page {
	t.Helper()
	browser, err := shared.get(chromium(t))
	if err != nil {
		t.Fatalf("browsertest: %v", err)
	}
	p := open(browser, t, chromedp.WithNewBrowserContext())
	p.View(Light)
	return p
}

// open opens a page or a frame, which is closed when the test ends.
func open(parent context.Context, t testing.TB, options ...chromedp.ContextOption) *Page {
	t.Helper()
	p := &Page{t: t, limit: actionLimit}
	ctx, cancel := chromedp.NewContext(parent, append(options, chromedp.WithListener(p.observe))...)
	p.ctx = ctx
	t.Cleanup(func() {
		t.Helper()
		p.finish()
		cancel()
	})
	// Without a timeout, since the life of the page is that of the first context.
	if _, err := chromedp.Call(ctx, audits.Enable, cdp.Empty{}); err != nil {
		t.Fatalf("browsertest: open a page: %v", err)
	}
	return p
}

// observe is called for each event, in order. It must not call the browser.
func (p *Page) observe(event any) {
	p.problems.observe(event)
	p.traffic.observe(event)
}

// Open loads a page and waits for its load event. Its origin becomes one of the test's own.
func (p *Page) Open(url string) {
	p.t.Helper()
	p.problems.own(url)
	p.Do("open "+url, chromedp.Navigate(url))
}

// Reload loads the page again and waits for its load event.
func (p *Page) Reload() {
	p.t.Helper()
	p.Do("reload", chromedp.Reload())
}

// Back starts to go to the previous page of the history. Wait for what that page shows.
func (p *Page) Back() {
	p.t.Helper()
	Eval[bool](p, `(history.back(), true)`)
}

// Do runs actions of chromedp within one timeout. The name describes them in a failure.
func (p *Page) Do(name string, actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	run(p, name, chromedp.Steps(actions...))
}

// run runs an action within the timeout and returns its result.
func run[T any](p *Page, name string, action chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, p.limit)
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	if err != nil {
		p.fatal(name, err)
	}
	return result
}

// fatal fails the test and logs what the page shows.
func (p *Page) fatal(name string, err error) {
	p.t.Helper()
	if errors.Is(err, context.DeadlineExceeded) {
		p.t.Logf("the page shows:\n%s", p.describe())
	}
	p.t.Fatalf("%s: %v", name, err)
}

// describe returns the URL, the title and the beginning of the text.
func (p *Page) describe() string {
	const limit = 5 * time.Second
	ctx, cancel := context.WithTimeout(p.ctx, limit)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](
		`[location.href, document.title, document.body?.innerText.slice(0, 2000)].join("\n")`))
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return text
}

// finish reports the problems of the page.
func (p *Page) finish() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, actionLimit)
	defer cancel()
	// Events that the page caused before now arrive before this answer.
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](
		`new Promise(r => setTimeout(() => r(true)))`, chromedp.EvalAwaitPromise)); err != nil {
		p.t.Errorf("browsertest: the page does not answer: %v", err)
	}
	for _, problem := range p.problems.report() {
		p.t.Errorf("browsertest: %s", problem)
	}
}
