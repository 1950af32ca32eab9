package consolestories_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/cli/send"
)

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

// click clicks the link or button that a person sees with a name.
func click(p *browsertest.Page, name string) {
	see := fmt.Sprintf(seeScript, strconv.Quote(name))
	p.WaitFor(see)
	p.Click(browsertest.Eval[string](p, see))
}

// confirm proceeds in the dialog, which must say what will happen.
func confirm(p *browsertest.Page, says string) {
	p.WaitText("#confirm[open]", says)
	p.Click("[data-confirm-proceed]")
}

// pasted pastes into the search field and returns what was there to paste.
func pasted(p *browsertest.Page) string {
	p.WaitText("[data-announce]", "Copied.")
	p.Fill("#search", "")
	const control = 2
	p.Do("paste", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, input.DispatchKeyEvent, input.DispatchKeyEventParams{
			Type: input.DispatchKeyEventTypeRawKeyDown, Modifiers: control, Key: "v", Code: "KeyV", Commands: []string{"paste"}})
		return err
	}))
	p.WaitFor(`document.querySelector("#search").value`)
	text := browsertest.Eval[string](p, `document.querySelector("#search").value`)
	p.Fill("#search", "")
	return text
}

// push sends a push as GitHub does, and returns the status of the answer.
func push(t *testing.T, url, secret string, body string) int {
	t.Helper()
	sample := send.Sample{Provider: "github"}
	if body != "" {
		sample.Body = []byte(body)
	}
	r, err := sample.Request(t.Context(), url, secret, time.Now())
	must(t, err)
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	must(t, answer.Body.Close())
	return answer.StatusCode
}
