package portal_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/branding"
	"github.com/eventhook/eventhook/internal/portallink"
	"github.com/eventhook/eventhook/internal/session"
)

func TestLinkStartsASessionUntilItExpires(t *testing.T) {
	f := newFixtureOf(t, branding.Config{})
	page := f.get(f.link(false)).redirects("/portal/entered")
	for _, attribute := range []string{"eventhook_portal=", "Path=/portal", "HttpOnly", "Secure", "SameSite=None", "Partitioned"} {
		if cookie := page.header.Get("Set-Cookie"); !strings.Contains(cookie, attribute) {
			t.Errorf("cookie, got %q, want %s", cookie, attribute)
		}
	}
	f.get("/portal/entered").redirects("/portal")
	f.get("/portal").is(http.StatusOK).shows("Production", "customer-42")
	f.now = today.Add(time.Hour)
	f.get("/portal").is(http.StatusUnauthorized).shows("You need a new link", "ask for a new link").lacks("Production")
	r := f.request(http.MethodGet, "/portal/endpoints/"+own, nil)
	r.Header.Set("HX-Request", "true") // of a page that refreshes itself
	if got := f.do(r).is(http.StatusUnauthorized).header.Get("HX-Refresh"); got != "true" {
		t.Errorf("HX-Refresh, got %q, want true", got)
	}
}

func TestLinkThatIsNotValidSaysToAskForANewOne(t *testing.T) {
	f := newFixtureOf(t, branding.Config{})
	good := f.link(false)
	tenant := f.tenants.tenant.ID
	expired := portallink.New(tenant, scope, today.Add(-2*time.Hour), time.Hour).Sign(linkKey)
	forged := portallink.New(tenant, scope, today, time.Hour).Sign([]byte("another key"))
	unknown := portallink.New(eventhook.NewID[eventhook.Tenant](today.Add(time.Second)), scope, today, time.Hour).Sign(linkKey)
	for link, want := range map[string]string{"/portal/enter": "ask for a new link", good + "x": "ask for a new link", "/portal/enter?code=" + expired: "has expired. Ask for a new link",
		"/portal/enter?code=" + forged: "ask for a new link", "/portal/enter?code=" + unknown: "Ask the sender"} {
		page := f.get(link).shows(want)
		if page.status < http.StatusBadRequest || page.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: status %d with cookie %q, want a refusal without one", link, page.status, page.header.Get("Set-Cookie"))
		}
	}
}

func TestHeadStartsNoSession(t *testing.T) {
	f := newFixtureOf(t, branding.Config{})
	page := f.do(f.request(http.MethodHead, f.link(false), nil)).is(http.StatusMethodNotAllowed)
	if page.header.Get("Allow") != "GET" || page.header.Get("Set-Cookie") != "" {
		t.Errorf("headers, got %v, want no cookie", page.header)
	}
	f.get(f.link(false)).redirects("/portal/entered")
}

func TestBrowserWithoutCookiesIsTold(t *testing.T) {
	f := newFixtureOf(t, branding.Config{})
	f.get(f.link(false)).redirects("/portal/entered")
	clear(f.browser)
	f.get("/portal/entered").is(http.StatusUnauthorized).shows("Permit cookies for this site")
}

func TestSessionEndsWithTheTenant(t *testing.T) {
	for _, status := range []eventhook.TenantStatus{eventhook.TenantSuspended, eventhook.TenantClosed} {
		f := newFixture(t)
		f.tenants.tenant.Status = status
		f.get("/portal").is(http.StatusForbidden).shows("is not active").lacks("Production")
		f.get(f.link(false)).is(http.StatusForbidden)
		f.tenants.tenant.Status = eventhook.TenantActive
		f.get("/portal").is(http.StatusUnauthorized) // the session does not come back
		if len(f.api.calls) > 0 {
			t.Errorf("calls of a tenant that is %s, got %v, want none", status, f.api.calls)
		}
	}
}

func TestLeavingEndsTheSession(t *testing.T) {
	f := newFixture(t)
	f.post("/portal/leave", nil).is(http.StatusOK).shows("You are signed out").lacks("customer-42")
	f.get("/portal").is(http.StatusUnauthorized)
}

func TestActsNeedTheTokenOfTheSessionAndItsOwnSite(t *testing.T) {
	f := newFixture(t)
	f.post("/portal/endpoints/"+own+"/pause", url.Values{"csrf": {"forged"}}).is(http.StatusForbidden).shows("The form has expired")
	r := f.request(http.MethodPost, "/portal/endpoints/"+own+"/pause", url.Values{"csrf": {f.csrf}})
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	f.do(r).is(http.StatusForbidden)
	f.changesNothing()
	f.answer("POST "+T+"/subscriptions/"+own+"/pause", map[string]any{})
	r = f.request(http.MethodPost, "/portal/endpoints/"+own+"/pause", url.Values{"csrf": {f.csrf}})
	r.Header.Set("Sec-Fetch-Site", "same-origin") // as a browser sends it from a frame on another site
	r.Header.Set("Sec-Fetch-Dest", "iframe")
	f.do(r).redirects("/portal/endpoints/" + own)
}

// policy is the Content-Security-Policy of each page, without the origins that may embed it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors "

func TestHtmxEvaluatesNoTextInThePortal(t *testing.T) {
	newFixture(t).get("/portal").is(http.StatusOK).shows(`<meta name="htmx-config" content='` +
		`{"includeIndicatorStyles":false,"allowEval":false,"historyCacheSize":0,"defaultSettleDelay":0}'>`)
}

func TestPortalCanBeEmbeddedByTheConfiguredOriginsOnly(t *testing.T) {
	f := newFixture(t)
	alone := f.get("/portal").header
	if got := alone.Get("Content-Security-Policy"); got != policy+"'none'" || alone.Get("X-Frame-Options") != "DENY" {
		t.Errorf("headers without origins, got %v, want no frame", alone)
	}
	f = newFixtureOf(t, branding.Config{FrameAncestors: []string{"https://app.example.com"}})
	f.enter(f.link(false))
	embedded := f.get("/portal").header
	if got := embedded.Get("Content-Security-Policy"); got != policy+"https://app.example.com" ||
		embedded.Get("X-Frame-Options") != "" || embedded.Get("Cross-Origin-Resource-Policy") != "cross-origin" ||
		embedded.Get("Cross-Origin-Opener-Policy") != "" {
		t.Errorf("headers with an origin, got %v, want a frame of it", embedded)
	}
}

func TestPortalHasTheLookOfTheOperator(t *testing.T) {
	f := newFixtureOf(t, branding.Config{Name: "Acme " + attack, AccentColor: "#006400"})
	f.enter(f.link(false))
	page := f.get("/portal").shows("Acme &#34;").lacks("<script>alert", "Eventhook")
	_, after, _ := strings.Cut(page.body, `href="/portal/static/portal-`)
	name, _, _ := strings.Cut(after, `"`)
	f.get("/portal/static/portal-" + name).is(http.StatusOK).shows("--accent: light-dark(#006400")
}

func TestThemeLeadsBackToThePortalOnly(t *testing.T) {
	f := newFixture(t)
	f.post("/portal/theme", url.Values{"theme": {"dark"}, "next": {"/portal/types?x=1"}}).redirects("/portal/types?x=1")
	f.get("/portal/types").shows(`data-theme="dark"`)
	for _, next := range []string{"https://evil.example/portal/x", "//evil.example/portal/", `/portal/\evil`, "/console", "/portal/../console", "/portal/x/..%2f..%2fevil", ""} {
		f.post("/portal/theme", url.Values{"theme": {"evil"}, "next": {next}}).redirects("/portal")
	}
	f.get("/portal/types").lacks("data-theme=")
}

func TestRandomCookiesAreLimitedByAddress(t *testing.T) {
	f := newFixture(t)
	get := func(token string) reply {
		r := f.request(http.MethodGet, "/portal", nil)
		r.Header.Set("Cookie", session.SecurePrefix+"eventhook_portal="+token)
		return f.do(r)
	}
	for n := range 20 {
		get(fmt.Sprintf("%043d", 4*n)).is(http.StatusUnauthorized)
	}
	if got := get(fmt.Sprintf("%043d", 400)).is(http.StatusTooManyRequests).shows("Too busy", "Try again in a minute").header.Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After, got %q, want 1", got)
	}
	f.get("/portal").is(http.StatusOK)
}

func TestLinkStartsFewSessionsPerSecond(t *testing.T) {
	f := newFixtureOf(t, branding.Config{})
	for range 50 {
		f.get(f.link(false)).redirects("/portal/entered")
	}
	f.get(f.link(false)).is(http.StatusTooManyRequests).shows("Too many people signed in from your address")
}
