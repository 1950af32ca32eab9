package browsertest

import (
	"context"
	"fmt"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// nameScript returns the CSS path of the first visible link, button, label or summary with a name: the
// first line of its text, or its aria-label; "" if there is none.
const nameScript = `(() => {
	const name = e => [e.innerText.split("\n")[0].trim(), e.getAttribute("aria-label")];
	let e = [...document.querySelectorAll("a, button, summary, label")].find(
		e => name(e).includes(%s) && e.checkVisibility());
	const path = [];
	for (; e?.parentElement; e = e.parentElement)
		path.unshift(e.localName + ":nth-child(" + ([...e.parentElement.children].indexOf(e) + 1) + ")");
	return path.join(" > ");
})()`

// ClickName clicks the first visible link, button, label or summary with a name: the first line of its
// text, or its aria-label.
func (p *Page) ClickName(name string) {
	p.t.Helper()
	find := fmt.Sprintf(nameScript, quote(name))
	p.WaitFor(find)
	p.Click(Eval[string](p, find))
}

// IsNamed reports whether the page shows a link, button, label or summary with a name.
func (p *Page) IsNamed(name string) bool {
	p.t.Helper()
	return Eval[bool](p, fmt.Sprintf(nameScript, quote(name))+` !== ""`)
}

// Clipboard returns the text of the clipboard. It pastes into a field that it adds to the page meanwhile.
func (p *Page) Clipboard() string {
	p.t.Helper()
	const control = 2
	Eval[bool](p, `(e => { e.id = "browsertest-paste"; document.body.append(e); e.focus(); return true })(
		document.createElement("textarea"))`)
	p.Do("paste", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, input.DispatchKeyEvent, input.DispatchKeyEventParams{
			Type: input.DispatchKeyEventTypeRawKeyDown, Modifiers: control, Key: "v", Code: "KeyV", Commands: []string{"paste"}})
		return err
	}))
	p.WaitFor(`document.querySelector("#browsertest-paste").value`)
	return Eval[string](p, `(e => { e.remove(); return e.value })(document.querySelector("#browsertest-paste"))`)
}

// Attack is text that sets window.attacked if a page shows it as markup.
const Attack = `"><img src=x onerror="window.attacked=1"><script>window.attacked=1</script>{{.}}`

// Unharmed fails the test if the page shows Attack as markup.
func (p *Page) Unharmed() {
	p.t.Helper()
	if Eval[bool](p, `window.attacked === 1 || document.querySelector('img[src="x"]') !== null`) {
		p.t.Errorf("%s: the text of a sender is markup", p.URL())
	}
}
