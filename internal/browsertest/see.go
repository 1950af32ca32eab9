package browsertest

import "fmt"

// seeScript returns the CSS path of the first visible link or button with a name: the first line of
// its text, or its label; "" if there is none.
const seeScript = `(() => {
	const name = e => [e.innerText.split("\n")[0].trim(), e.getAttribute("aria-label")];
	let e = [...document.querySelectorAll("a, button, summary")].find(e => name(e).includes(%s) && e.checkVisibility());
	const path = [];
	for (; e?.parentElement; e = e.parentElement)
		path.unshift(e.localName + ":nth-child(" + ([...e.parentElement.children].indexOf(e) + 1) + ")");
	return path.join(" > ");
})()`

// ClickOn clicks the first link or button that a person sees with a name.
func (p *Page) ClickOn(name string) {
	p.t.Helper()
	see := fmt.Sprintf(seeScript, quote(name))
	p.wait("wait until "+name+" can be clicked", see)
	p.Click(Eval[string](p, see))
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
