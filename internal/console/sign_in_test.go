package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/session"
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
	f.answer("GET /api/identity", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		writeProblem(w, &client.Problem{Title: "Too Many Requests", Status: http.StatusTooManyRequests})
	}))
	if got := f.post("/console/sign-in", url.Values{"key": {"ehk_wrong"}}).is(http.StatusTooManyRequests).shows("Wait a minute").header.Get("Retry-After"); got != "7" {
		t.Errorf("Retry-After, got %q, want 7", got)
	}
}

func TestSignInLeadsToPagesOfTheConsoleOnly(t *testing.T) {
	for _, next := range []string{"https://evil.example/console", "//evil.example/console", `/console\..\evil`, "/docs", "javascript:alert(1)", "/consoleevil", "/console/sign-out",
		"/console/%73ign-out", "/console/../portal/enter?code=x", "/console/../../evil", "/console/events/..%2f..%2f..%2fevil", "/console/%2e%2e/evil", "/console/./sign-out",
		"/console//evil.example", "/console/%5c..%5cevil", "/console/a/..", "console/../evil", "//user@evil.example/console", ""} {
		f := newFixture(t)
		f.post("/console/sign-in", url.Values{"key": {"ehk_good"}, "next": {next}}).redirects("/console")
	}
}

func TestSignInLeadsToThePageWithItsFilters(t *testing.T) {
	for _, next := range []string{"/console", "/console/t/acme/", "/console/t/acme/events?status=dead&type=a%20b", "/console/t/acme/types/a%2Fb"} {
		f := newFixture(t)
		f.post("/console/sign-in", url.Values{"key": {"ehk_good"}, "next": {next}}).redirects(next)
	}
}

func TestSectionsLeadToPagesOfTheTenantOnly(t *testing.T) {
	f := newFixture(t)
	f.get("/console/events?status=dead").redirects("/console/t/acme/events?status=dead")
	f.get("/console/types/a%20b").redirects("/console/t/acme/types/a%20b")
	for _, path := range []string{"/console/events/..%2f..%2f..%2f..%2fevil", "/console/events/%2e%2e%2fsources", "/console/events/.%2fx"} {
		f.get(path).is(http.StatusNotFound)
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
	const page, signIn = "/console/t/acme/events", "/console/sign-in?next=%2Fconsole%2Ft%2Facme%2Fevents"
	f := newFixture(t)
	f.answer("GET "+T+"/events", client.EventPage{})
	f.answer("GET /api/identity", &client.Problem{Title: "Unauthorized", Status: http.StatusUnauthorized}, client.Identity{Type: "admin"})
	if got := f.get(page).redirects(signIn).header.Get("Set-Cookie"); !strings.HasPrefix(got, f.cookie.Name+"=; Path=/console; Max-Age=0;") {
		t.Errorf("cookie, got %q, want it deleted", got)
	}
	f.get(page).redirects(signIn) // although the API would accept it again
}

func TestSignInAndSignOutAreAudited(t *testing.T) {
	f := newFixture(t)
	f.post("/console/sign-in", url.Values{"key": {"ehk_good"}}).redirects("/console")
	if got, want := f.store.Audit(), []string{"session.started ci", "session.ended ci", "session.started ci"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRefreshesDoNotExtendASession(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/events", client.EventPage{})
	send := func(method, path string, isPart bool) {
		t.Helper()
		f.clock.Advance(2 * time.Minute)
		r := f.request(method, path, url.Values{"csrf": {f.csrf}})
		if isPart {
			r.Header.Set("Hx-Request", "true")
		}
		f.do(r)
	}
	for range 3 {
		send(http.MethodGet, "/console/t/acme/events", true)
	}
	if got := f.store.Touches(); got != 0 {
		t.Errorf("uses of the session by refreshes, got %d, want none", got)
	}
	send(http.MethodGet, "/console/t/acme/events", false)
	send(http.MethodPost, "/console/t/acme/sources/crm/routes/form", true) // a person types in a form
	if got := f.store.Touches(); got != 2 {
		t.Errorf("uses of the session by a person, got %d, want 2", got)
	}
	f.clock.Advance(session.IdleTimeout)
	r := f.request(http.MethodGet, "/console/t/acme/events", nil)
	r.Header.Set("Hx-Request", "true")
	if got := f.do(r).is(http.StatusUnauthorized).header.Get("Hx-Redirect"); !strings.HasPrefix(got, "/console/sign-in") {
		t.Errorf("HX-Redirect of an idle session, got %q", got)
	}
}

// hxGet matches the elements that send a GET request by htmx.
var hxGet = regexp.MustCompile(`<[^>]*hx-get=[^>]*>`)

// A session counts a GET request of htmx as one that no person caused.
func TestPagesLoadPartsByThemselvesOnly(t *testing.T) {
	files, err := filepath.Glob("pages/*.html")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, element := range hxGet.FindAllString(string(text), -1) {
			found++
			if !strings.Contains(element, `hx-trigger="live"`) && !strings.Contains(element, `hx-trigger="load"`) {
				t.Errorf("%s: a person triggers %s", file, element)
			}
		}
	}
	if found < 10 {
		t.Errorf("found %d elements, want at least 10", found)
	}
}

func TestRandomCookiesAreLimitedByAddress(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/events", client.EventPage{})
	get := func(n int, path string) reply {
		r := f.request(http.MethodGet, path, nil)
		r.Header.Set("Cookie", fmt.Sprintf("%s=%043d", f.cookie.Name, 4*n))
		return f.do(r)
	}
	for n := range 20 {
		get(n, "/console").is(http.StatusSeeOther)
	}
	for _, path := range []string{"/console", "/console/t/acme/stream"} {
		if got := get(21, path).is(http.StatusTooManyRequests).shows("Try again in a minute").header.Get("Retry-After"); got != "1" {
			t.Errorf("%s: Retry-After, got %q, want 1", path, got)
		}
	}
	get(22, "/console/sign-in").is(http.StatusOK).shows("API key")
	f.get("/console/t/acme/events").is(http.StatusOK)
}

func TestPagesHaveTheSecurityHeaders(t *testing.T) {
	f := newFixture(t)
	w := httptest.NewRecorder()
	f.console.ServeHTTP(w, f.request(http.MethodGet, "/console/sign-in", nil))
	for name, want := range map[string]string{"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff",
		"Cache-Control": "no-store", "Referrer-Policy": "same-origin", "X-Frame-Options": "DENY"} {
		if got := w.Header().Get(name); got != want {
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
