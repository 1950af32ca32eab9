package browsertest

import (
	"context"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/chromedp"
)

// TrustCertificates has the page accept every certificate, such as one that a test has signed itself.
func (p *Page) TrustCertificates() {
	p.t.Helper()
	p.Do("trust certificates", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, security.SetIgnoreCertificateErrors,
			security.SetIgnoreCertificateErrorsParams{Ignore: true})
		return err
	}))
}

// BlockForeignCookies has the frames of other sites send and store partitioned cookies only, in each
// document that is opened from now on. Browsers do so to protect from tracking.
func (p *Page) BlockForeignCookies() {
	p.t.Helper()
	p.Do("block cookies of other sites", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, network.SetCookieControls,
			network.SetCookieControlsParams{EnableThirdPartyCookieRestriction: true})
		return err
	}))
}

// Cookies returns the cookies that the browser sends to the address of the page.
func (p *Page) Cookies() []*network.Cookie {
	p.t.Helper()
	return run(p, "read the cookies", func(ctx context.Context, t *chromedp.Target) ([]*network.Cookie, error) {
		sent, err := cdp.Call(ctx, t, network.GetCookies, network.GetCookiesParams{})
		return sent.Cookies, err
	})
}

// Frame returns the frame whose document is of an origin other than the page's site, which has loaded.
// A browser runs such a frame in a process of its own. The origin becomes one of the test's own, also for
// the requests that the page sent before. The problems of the frame fail the test, as those of the page do.
// View is for a page only.
func (p *Page) Frame(origin string) *Page {
	p.t.Helper()
	all, err := chromedp.Targets(p.ctx)
	if err != nil {
		p.fatal("list the frames", err)
	}
	id := chromedp.FromContext(p.ctx).Target.TargetID // which is that of the main frame, too
	for _, t := range all {
		if t.Type == "iframe" && string(t.ParentFrameID) == string(id) && strings.HasPrefix(t.URL, origin+"/") {
			p.problems.permit(origin)
			frame := open(p.ctx, p.t, chromedp.WithTargetID(t.TargetID), chromedp.WithDetachOnCancel())
			frame.problems.own(origin)
			return frame
		}
	}
	p.t.Fatalf("the page has no frame of %s:\n%s", origin, p.describe())
	return nil
}
