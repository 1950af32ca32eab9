package browsertest

import (
	"context"
	"fmt"
	"strings"

	"github.com/chromedp/chromedp"
)

// waitScript resolves when the expression is true. It looks at each frame of the page, and before
// the first frame.
const waitScript = `new Promise((resolve, reject) => {
	const look = () => {
		try {
			if (%s) resolve(true); else requestAnimationFrame(look);
		} catch (e) { reject(e) }
	};
	look();
})`

// visibleScript is true if the first element of a selector is visible.
const visibleScript = `document.querySelector(%s)?.checkVisibility({visibilityProperty: true, opacityProperty: true})`

// WaitFor waits until a JavaScript expression is true, also across navigations.
func (p *Page) WaitFor(expression string) {
	p.t.Helper()
	p.wait("wait for "+expression, expression)
}

// WaitVisible waits until the first element of a CSS selector is visible.
func (p *Page) WaitVisible(selector string) {
	p.t.Helper()
	p.wait("wait until "+selector+" is visible", fmt.Sprintf(visibleScript, quote(selector)))
}

// WaitGone waits until no element of a CSS selector is visible.
func (p *Page) WaitGone(selector string) {
	p.t.Helper()
	p.wait("wait until "+selector+" is gone", fmt.Sprintf("!"+visibleScript, quote(selector)))
}

// WaitText waits until the visible text of the first element of a CSS selector contains a text.
func (p *Page) WaitText(selector, text string) {
	p.t.Helper()
	p.wait(fmt.Sprintf("wait until %s contains %q", selector, text),
		fmt.Sprintf(`document.querySelector(%s)?.innerText.includes(%s)`, quote(selector), quote(text)))
}

// WaitURL waits until the address of the page contains a text.
func (p *Page) WaitURL(text string) {
	p.t.Helper()
	p.wait("wait until the URL contains "+text, fmt.Sprintf(`location.href.includes(%s)`, quote(text)))
}

// wait evaluates the script again after a navigation, which ends a script.
func (p *Page) wait(name, expression string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, p.limit)
	defer cancel()
	for {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](fmt.Sprintf(waitScript, expression), chromedp.EvalAwaitPromise))
		switch {
		case err == nil:
			return
		case ctx.Err() != nil:
			p.fatal(name, ctx.Err())
		case !isNavigation(err):
			p.fatal(name, err)
		}
	}
}

// isNavigation reports whether a script ended because its document was replaced.
func isNavigation(err error) bool {
	text := err.Error()
	return strings.Contains(text, "navigated or closed") || strings.Contains(text, "context was destroyed") ||
		strings.Contains(text, "Cannot find context")
}
