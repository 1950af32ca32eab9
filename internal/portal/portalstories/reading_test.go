package portalstories_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// acts selects the forms and links of acts, except those that concern the browser only, which every page
// has, and the page that an act leads to.
const acts = `form:not([action="/portal/theme"], [action="/portal/leave"]), ` +
	`a[href*="/new"], a[href$="/edit"], a[href$="/replay"], button.primary, button.danger`

func TestLinkForReadingShowsNoActAndPermitsNone(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Shared(t)
	a := newAccount(t, g, "reading")
	link := a.PortalLink(globex, true)
	p := browsertest.New(t)
	p.Open(link)
	p.WaitText("header", "read only")
	p.Allow("401 (Unauthorized)")
	p.Allow("404 (Not Found)")
	for _, page := range (place{a.own.endpoint, a.own.endpoint, a.own.delivery, a.own.delivery}).pages() {
		p.Open(g.URL + page.path)
		p.WaitVisible("h1")
		if n := p.Count("main :is(" + acts + ")"); n > 0 {
			t.Errorf("%s shows %d acts", page.path, n)
		}
	}
	before := stateOf(t, a.Tenant)
	v := newVisitor(t, g, link)
	for _, pattern := range routes() {
		if slices.Contains(ownActs, pattern) {
			continue
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			got := v.do(method, a.own.path(pattern), form(v.csrf))
			isAct := strings.HasPrefix(pattern, method+" ")
			if !got.isRefused() || isAct && !strings.Contains(got.body, "Your link lets you look, and change nothing.") {
				t.Errorf("%s %s is answered %s", method, a.own.path(pattern), got)
			}
		}
	}
	isUnchanged(t, a.Tenant, before)
}
