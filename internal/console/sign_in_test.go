package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
)

func TestPagesAskForASignInAndComeBack(t *testing.T) {
	f := newFixture(t)
	f.cookie = nil
	f.get("/console/t/acme/events?status=dead").redirects("/console/sign-in?next=%2Fconsole%2Ft%2Facme%2Fevents%3Fstatus%3Ddead")
	f.get("/console/sign-in?next=%2Fconsole%2Ft%2Facme").is(http.StatusOK).shows(`name="next" value="/console/t/acme"`)
}

func TestKeySignsIn(t *testing.T) {
	f := newFixture(t)
	f.cookie = nil
	var authorization string
	f.answer("GET /api/identity", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorization = r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"type":"tenant","name":"ci","tenant":{"slug":"acme"}}`))
	}))
	page := f.post("/console/sign-in", url.Values{"key": {" ehk_good "}, "next": {"/console/t/acme"}}).redirects("/console/t/acme")
	if authorization != "Bearer ehk_good" {
		t.Errorf("authorization of the check, got %q, want the key", authorization)
	}
	if cookie := page.header.Get("Set-Cookie"); !strings.Contains(cookie, "eventhook_console=") || !strings.Contains(cookie, "HttpOnly") {
		t.Errorf("cookie, got %q, want an HttpOnly session", cookie)
	}
}

func TestWrongKeyIsRefusedWithoutItsText(t *testing.T) {
	f := newFixture(t)
	f.cookie = nil
	f.answer("GET /api/identity", &client.Problem{Title: "Unauthorized", Status: http.StatusUnauthorized})
	f.post("/console/sign-in", url.Values{"key": {"ehk_wrong"}}).is(http.StatusUnauthorized).shows("This key is not valid").lacks("ehk_wrong")
	f.post("/console/sign-in", url.Values{"key": {"two words\n"}}).is(http.StatusUnauthorized).lacks("two words")
	f.answer("GET /api/identity", &client.Problem{Title: "Too Many Requests", Status: http.StatusTooManyRequests})
	f.post("/console/sign-in", url.Values{"key": {"ehk_wrong"}}).is(http.StatusTooManyRequests).shows("Wait a minute")
}

func TestSignInLeadsToPagesOfTheConsoleOnly(t *testing.T) {
	for _, next := range []string{"https://evil.example/console", "//evil.example/console", `/console\..\evil`, "/docs", "javascript:alert(1)", "/consoleevil", "/console/sign-out"} {
		f := newFixture(t)
		f.post("/console/sign-in", url.Values{"key": {"ehk_good"}, "next": {next}}).redirects("/console")
	}
}

func TestSignInFromAnotherSiteIsRefused(t *testing.T) {
	f := newFixture(t)
	r := f.request(http.MethodPost, "/console/sign-in", url.Values{"key": {"ehk_good"}})
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	f.do(r).is(http.StatusForbidden)
}

func TestSignOutEndsTheSession(t *testing.T) {
	f := newFixture(t)
	f.post("/console/sign-out", url.Values{"csrf": {"forged"}}).redirects("/console")
	f.answer("GET "+T+"/events", client.EventPage{})
	f.get("/console/t/acme/events").is(http.StatusOK)
	f.post("/console/sign-out", nil).redirects("/console/sign-in")
	f.get("/console/t/acme/events").redirects("/console/sign-in?next=%2Fconsole%2Ft%2Facme%2Fevents")
}

func TestSessionOfADeletedKeyEnds(t *testing.T) {
	f := newFixture(t)
	f.answer("GET /api/identity", &client.Problem{Title: "Unauthorized", Status: http.StatusUnauthorized})
	f.get("/console/t/acme/events").redirects("/console/sign-in?next=%2Fconsole%2Ft%2Facme%2Fevents")
}

func TestPagesHaveTheSecurityHeaders(t *testing.T) {
	f := newFixture(t)
	w := httptest.NewRecorder()
	f.console.ServeHTTP(w, f.request(http.MethodGet, "/console/sign-in", nil))
	for name, want := range map[string]string{"Content-Security-Policy": "frame-ancestors 'none'", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
		"Referrer-Policy": "same-origin", "X-Frame-Options": "DENY"} {
		if got := w.Header().Get(name); !strings.Contains(got, want) {
			t.Errorf("%s, got %q, want %q", name, got, want)
		}
	}
}

func TestErrorsOfTheAPIBecomePages(t *testing.T) {
	for status, want := range map[int]string{http.StatusForbidden: "No permission", http.StatusNotFound: "Not found", http.StatusServiceUnavailable: "The gateway is busy"} {
		f := newFixture(t)
		f.answer("GET "+T+"/events", &client.Problem{Title: "x", Status: status, Detail: "The API key lacks the scope read. " + attack})
		f.get("/console/t/acme/events").is(status).shows(want, "lacks the scope read", "req-1").lacks("<script>alert")
	}
}
