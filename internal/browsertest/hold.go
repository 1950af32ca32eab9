package browsertest

import (
	"context"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// Hold keeps requests of a type, such as XHR, until release is called: the page stays in the
// state in which it loads. The browser answers nothing while it waits for a document.
func (p *Page) Hold(requestType string) (release func()) {
	p.t.Helper()
	p.Do("hold "+requestType, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, fetch.Enable, fetch.EnableParams{Patterns: []*fetch.RequestPattern{{ResourceType: network.ResourceType(requestType)}}})
		return err
	}))
	return func() {
		p.t.Helper()
		p.Do("release "+requestType, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, fetch.Disable, cdp.Empty{})
			return err
		}))
	}
}
