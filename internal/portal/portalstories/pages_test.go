package portalstories_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/portal"
)

// shown is a page with the name of its screenshot.
type shown struct{ name, path string }

// place is what the pages of a customer show.
type place struct{ healthy, failing, delivered, failed string }

// pages lists every page of the portal of a customer.
func (p place) pages() []shown {
	endpoint := "/portal/endpoints/"
	return []shown{
		{"portal-endpoints", "/portal"}, {"portal-endpoint", endpoint + p.healthy},
		{"portal-endpoint-failing", endpoint + p.failing},
		{"portal-endpoint-none", endpoint + p.failing + "?status=acquired"},
		{"portal-endpoint-new", "/portal/endpoints/new"}, {"portal-endpoint-edit", endpoint + p.healthy + "/edit"},
		{"portal-replay", endpoint + p.failing + "/replay"},
		{"portal-replay-estimate", endpoint + p.failing + "/replay?what=failed&since=" + hourAgo()},
		{"portal-delivery", "/portal/deliveries/" + p.delivered}, {"portal-delivery-failed", "/portal/deliveries/" + p.failed},
		{"portal-types", "/portal/types"}, {"portal-not-found", "/portal/nothing"}, {"portal-link-wrong", "/portal/enter?code=x"},
	}
}

func hourAgo() string { return time.Now().UTC().Add(-time.Hour).Format("2006-01-02T15:04") }

// redirects are the routes that show no page of their own.
var redirects = []string{"GET /portal/static/", "GET /portal/entered", "GET /portal/{$}", "GET /portal/endpoints"}

// routes returns the patterns of the portal.
func routes() []string { return portal.New(portal.Config{Now: time.Now}).Patterns() }

// routeOf returns the function that finds the pattern of a request.
func routeOf() func(method, path string) string {
	mux := http.NewServeMux()
	for _, pattern := range routes() {
		mux.Handle(pattern, http.NotFoundHandler())
	}
	return func(method, path string) string {
		_, pattern := mux.Handler(httptest.NewRequest(method, path, nil))
		return pattern
	}
}

func TestEveryRouteThatShowsAPageIsListed(t *testing.T) {
	listed := map[string]bool{}
	route := routeOf()
	for _, page := range (place{"1", "1", "1", "1"}).pages() {
		listed[route(http.MethodGet, page.path)] = true
	}
	for _, pattern := range redirects {
		listed[pattern] = true
	}
	for _, pattern := range routes() {
		if !listed[pattern] && !strings.HasPrefix(pattern, "POST ") {
			t.Errorf("the route %s has no page in the list of place.pages", pattern)
		}
	}
}

// Budgets of a page.
const (
	maxHTML  = 80 << 10 // compressed bytes
	maxShift = 0.1
)

// open opens a page and checks that it is fast, and that no text became markup.
func open(t *testing.T, p *browsertest.Page, url string) {
	t.Helper()
	p.View(browsertest.Light)
	p.Open(url)
	p.WaitVisible("main h1")
	if got := p.Transferred().Document; got > maxHTML {
		t.Errorf("compressed HTML, got %d bytes, want at most %d", got, maxHTML)
	}
	if v := p.Vitals(); v.LargestShift > maxShift {
		t.Errorf("layout shift, got %.3f of %s, want at most %.1f", v.LargestShift, v.ShiftedAt, maxShift)
	}
	check(t, p)
}

// check checks that what a page shows is accessible in each variant, fits, and has no markup of
// senders. The page is then in the variant Phone.
func check(t *testing.T, p *browsertest.Page) {
	t.Helper()
	p.Unharmed()
	for _, v := range []browsertest.Variant{browsertest.Light, browsertest.Dark, browsertest.Phone} {
		p.View(v)
		p.Axe()
		if wide := p.Overflow(); wide > 0 {
			t.Errorf("the page is %d pixels wider than the window of the variant %s", wide, v.Name)
		}
	}
}
