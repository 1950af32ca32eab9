package consolestories_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/cli/send"
)

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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must1[V any](v V, err error) V {
	if err != nil {
		panic(fmt.Sprint(err))
	}
	return v
}

func ref[V any](v V) *V { return &v }
