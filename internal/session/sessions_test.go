package session_test

import (
	"crypto/tls"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/clocktest"
	"github.com/eventhook/eventhook/internal/session"
	"github.com/eventhook/eventhook/internal/session/sessiontest"
)

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// fixture is the sessions of a console and a portal on one store.
type fixture struct {
	*testing.T
	clock           *clocktest.Clock
	store           *sessiontest.Store
	console, portal *session.Sessions
}

func setUp(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, clock: clocktest.New(noon)}
	f.store = sessiontest.NewStore(f.clock.Now)
	f.console = session.New(session.Config{Kind: session.Console, Cookies: session.ConsoleCookies(), Store: f.store, Now: f.clock.Now})
	f.portal = session.New(session.Config{Kind: session.Portal, Cookies: session.PortalCookies(), Store: f.store, Now: f.clock.Now})
	return f
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) same(claim string, got, want any) {
	f.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		f.Errorf("%s (-want +got):\n%s", claim, diff)
	}
}

// start signs in and returns the cookie.
func (f *fixture) start(s *session.Sessions, r *http.Request, n session.Session) *http.Cookie {
	f.Helper()
	w := httptest.NewRecorder()
	_, err := s.Start(f.Context(), w, r, n)
	f.must(err)
	return w.Result().Cookies()[0]
}

func request(method, target string, cookies ...*http.Cookie) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	for _, c := range cookies {
		r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
	}
	return r
}

const site = "https://hooks.example/console"

func (f *fixture) isValid(s *session.Sessions, cookie *http.Cookie) bool {
	f.Helper()
	_, _, err := s.Read(request("GET", site, cookie))
	if err != nil && eventhook.KindOf(err) != eventhook.KindUnauthorized {
		f.Fatal(err)
	}
	return err == nil
}

func TestASessionLastsFromItsStartToItsEnd(t *testing.T) {
	f := setUp(t)
	cookie := f.start(f.console, request("POST", site), session.Session{Name: "ci", KeyHash: make([]byte, 32)})
	n, token, err := f.console.Read(request("GET", site, cookie))
	f.must(err)
	f.same("the session", n, session.Session{ID: n.ID, Kind: session.Console, Name: "ci", KeyHash: make([]byte, 32), CreatedAt: noon, LastSeenAt: noon,
		ExpiresAt: noon.Add(session.MaxAge)})
	f.same("the token", token, cookie.Value)
	w := httptest.NewRecorder()
	f.must(f.console.End(t.Context(), w, request("POST", site, cookie)))
	f.same("the cookie at the end", w.Result().Cookies()[0].MaxAge, -1)
	f.same("valid after the end", f.isValid(f.console, cookie), false)
	f.same("valid without a cookie", f.isValid(f.console, &http.Cookie{Name: "other", Value: "x"}), false)
}

func TestSigningInAgainEndsTheFormerSession(t *testing.T) {
	f := setUp(t)
	first := f.start(f.console, request("POST", site), session.Session{})
	second := f.start(f.console, request("POST", site, first), session.Session{})
	f.same("valid", []bool{f.isValid(f.console, first), f.isValid(f.console, second)}, []bool{false, true})
}

func TestASessionIsOfOneKind(t *testing.T) {
	f := setUp(t)
	cookie := f.start(f.portal, request("POST", site), session.Session{ExpiresAt: noon.Add(time.Hour)})
	f.same("valid for the portal", f.isValid(f.portal, cookie), true)
	cookie.Name = session.SecurePrefix + session.ConsoleCookies().Name
	f.same("valid for the console", f.isValid(f.console, cookie), false)
}

func TestSessionsExpire(t *testing.T) {
	f := setUp(t)
	idle := f.start(f.console, request("POST", site), session.Session{})
	active := f.start(f.console, request("POST", site), session.Session{})
	link := f.start(f.portal, request("POST", site), session.Session{ExpiresAt: noon.Add(20 * time.Hour)})
	step := session.IdleTimeout - time.Second
	f.clock.Advance(step)
	f.same("active before the idle timeout", f.isValid(f.console, active), true)
	f.clock.Advance(time.Second)
	f.same("idle for 12 h", f.isValid(f.console, idle), false)
	f.same("the portal after 12 h", f.isValid(f.portal, link), true)
	f.clock.Advance(8 * time.Hour)
	f.same("the portal at its end", f.isValid(f.portal, link), false)
	for f.clock.Now().Add(step).Before(noon.Add(session.MaxAge)) {
		f.same("active", f.isValid(f.console, active), true)
		f.clock.Advance(step)
	}
	f.same("active before seven days", f.isValid(f.console, active), true)
	f.clock.Advance(noon.Add(session.MaxAge).Sub(f.clock.Now()))
	f.same("active for seven days", f.isValid(f.console, active), false)
}

func TestTheLastUseIsWrittenOnceAMinute(t *testing.T) {
	f := setUp(t)
	cookie := f.start(f.console, request("POST", site), session.Session{})
	for range 120 { // two minutes
		f.clock.Advance(time.Second)
		f.same("valid", f.isValid(f.console, cookie), true)
	}
	f.same("writes", f.store.Touches(), 2)
}

func TestPeekDoesNotExtendASession(t *testing.T) {
	f := setUp(t)
	cookie := f.start(f.console, request("POST", site), session.Session{})
	peek := func() bool { _, _, err := f.console.Peek(request("GET", site, cookie)); return err == nil }
	for f.clock.Now().Before(noon.Add(session.IdleTimeout)) {
		f.same("valid while it is not idle", peek(), true)
		f.clock.Advance(time.Hour)
	}
	f.same("valid after the idle timeout", peek(), false)
	f.same("writes", f.store.Touches(), 0)
}

func TestALinkIsRedeemedOnce(t *testing.T) {
	f := setUp(t)
	code, err := f.portal.NewLink(t.Context(), session.Session{Name: "customer", TenantSlug: "acme", Scope: "customer-42", ReadOnly: true}, time.Hour)
	f.must(err)
	_, err = f.console.Redeem(request("GET", site), code)
	f.same("by the console", eventhook.KindOf(err), eventhook.KindNotFound)
	var redeemed atomic.Int64
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			if n, err := f.portal.Redeem(request("GET", site), code); err == nil {
				redeemed.Add(1)
				f.same("the session", n, session.Session{Kind: session.Portal, Name: "customer", TenantSlug: "acme", Scope: "customer-42", ReadOnly: true,
					ExpiresAt: noon.Add(time.Hour)})
			}
		})
	}
	callers.Wait()
	f.same("callers that redeemed the link", redeemed.Load(), int64(1))
	late, err := f.console.NewLink(t.Context(), session.Session{}, time.Minute)
	f.must(err)
	f.clock.Advance(time.Minute)
	for _, code := range []string{late, "", "no code"} {
		_, err = f.console.Redeem(request("GET", site), code)
		f.same("an expired or wrong code", eventhook.KindOf(err), eventhook.KindNotFound)
	}
}

// local returns a request that a browser on the gateway's machine sends without TLS, unless headers say
// that a proxy has sent it.
func local(target string, headers ...string) *http.Request {
	r := request("POST", target)
	r.RemoteAddr = "127.0.0.1:52000"
	for _, name := range headers {
		r.Header.Set(name, "203.0.113.9")
	}
	return r
}

func TestCookieAttributes(t *testing.T) {
	f := setUp(t)
	const host = "http://localhost:8080/console"
	overTLS, ipv6, mapped := local(host), local("http://[::1]:8080/console"), local("http://[::1]/console")
	overTLS.TLS, ipv6.RemoteAddr, mapped.RemoteAddr = &tls.ConnectionState{}, "[::1]:52000", "[::ffff:127.0.0.1]:52000"
	public := session.New(session.Config{Kind: session.Console, Cookies: session.ConsoleCookies(), Store: f.store, Now: f.clock.Now, Jar: session.Jar{IsHTTPS: true}})
	const strict = "__Secure-eventhook_console=TOKEN; Path=/console; Max-Age=604800; HttpOnly; Secure; SameSite=Strict"
	const lax = "eventhook_console=TOKEN; Path=/console; Max-Age=604800; HttpOnly; SameSite=Lax"
	for _, c := range []struct {
		claim string
		s     *session.Sessions
		r     *http.Request
		want  string
	}{
		{"TLS", f.console, request("POST", site), strict},
		{"TLS on loopback", f.console, overTLS, strict},
		{"plain HTTP to another host", f.console, local("http://hooks.example/console"), strict},
		{"plain HTTP to a host that begins like loopback", f.console, local("http://127.0.0.1.example/console"), strict},
		{"plain HTTP to a host below localhost", f.console, local("http://localhost.example/console"), strict},
		{"the Host localhost from another machine", f.console, request("POST", host), strict},
		{"a proxy on this machine with X-Forwarded-For", f.console, local(host, "X-Forwarded-For"), strict},
		{"a proxy on this machine with X-Forwarded-Proto", f.console, local(host, "x-forwarded-proto"), strict},
		{"a proxy on this machine with Forwarded", f.console, local(host, "Forwarded"), strict},
		{"a proxy on this machine with Via", f.console, local(host, "Via"), strict},
		{"a proxy on this machine with X-Real-IP", f.console, local(host, "X-Real-IP"), strict},
		{"a proxy on this machine without headers, and an https public URL", public, local(host), strict},
		{"plain HTTP to localhost", f.console, local(host), lax},
		{"plain HTTP to 127.0.0.2", f.console, local("http://127.0.0.2:8080/console"), lax},
		{"plain HTTP to ::1", f.console, ipv6, lax},
		{"plain HTTP to ::1 without a port", f.console, mapped, lax},
		{"the portal over TLS", f.portal, request("POST", site), "__Secure-eventhook_portal=TOKEN; Path=/portal; Max-Age=604800; HttpOnly; Secure; SameSite=None; Partitioned"},
		{"the portal on plain loopback", f.portal, local("http://localhost/portal"), "eventhook_portal=TOKEN; Path=/portal; Max-Age=604800; HttpOnly; SameSite=Lax"},
	} {
		cookie := f.start(c.s, c.r, session.Session{})
		f.same(c.claim, strings.Replace(cookie.Raw, cookie.Value, "TOKEN", 1), c.want)
	}
}

func TestCookieOfASiteWithoutTLSIsNotRead(t *testing.T) {
	f := setUp(t)
	planted := f.start(f.console, local("http://localhost/console"), session.Session{})
	f.same("the name", planted.Name, "eventhook_console")
	f.same("valid over TLS", f.isValid(f.console, planted), false)
	planted.Name = session.SecurePrefix + planted.Name
	f.same("valid with the prefix", f.isValid(f.console, planted), true)
}

func TestJarDeletesACookieWithoutAValue(t *testing.T) {
	var jar session.Jar
	w, r := httptest.NewRecorder(), local("http://localhost/console")
	jar.Set(w, r, session.Cookie{Name: "a", Path: "/x", MaxAge: 20})
	if got := w.Header().Get("Set-Cookie"); got != "a=; Path=/x; Max-Age=0; HttpOnly; SameSite=Lax" {
		t.Errorf("got %q", got)
	}
}

func TestForgedRequestsAreRefused(t *testing.T) {
	f := setUp(t)
	token, other := f.start(f.console, request("POST", site), session.Session{}).Value, f.start(f.console, request("POST", site), session.Session{}).Value
	csrf := f.console.CSRFToken(token)
	form := func(r *http.Request, value string) *http.Request {
		body := strings.NewReader(url.Values{"csrf": {value}}.Encode())
		made := httptest.NewRequest(r.Method, r.URL.String(), body)
		made.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return made
	}
	with := func(r *http.Request, headers ...string) *http.Request {
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		return r
	}
	for _, c := range []struct {
		claim       string
		r           *http.Request
		token       string
		isPermitted bool
	}{
		{"GET", request("GET", site), token, true},
		{"HEAD", request("HEAD", site), token, true},
		{"the token in the header", with(request("POST", site), "X-CSRF-Token", csrf, "Sec-Fetch-Site", "same-origin"), token, true},
		{"the token in a form", form(request("POST", site), csrf), token, true},
		{"the token of another page", form(request("POST", site), f.console.CSRFToken(token)), token, true},
		{"half a token", form(request("POST", site), csrf[:43]), token, false},
		{"a token without its mask", form(request("POST", site), strings.Repeat("A", 43)+csrf[43:]), token, false},
		{"DELETE with the token", with(request("DELETE", site), "X-CSRF-Token", csrf), token, true},
		{"no token", with(request("POST", site), "Sec-Fetch-Site", "same-origin"), token, false},
		{"no token in DELETE", request("DELETE", site), token, false},
		{"no token in OPTIONS", request("OPTIONS", site), token, false},
		{"the token of another session", with(request("POST", site), "X-CSRF-Token", f.console.CSRFToken(other)), token, false},
		{"a wrong token in a form", form(request("POST", site), "x"), token, false},
		{"the token in the query", request("POST", site+"?csrf="+csrf), token, false},
		{"without a session", with(request("POST", site), "X-CSRF-Token", f.console.CSRFToken("")), "", false},
		{"from another site, with the token", with(request("POST", site), "X-CSRF-Token", csrf, "Sec-Fetch-Site", "cross-site"), token, false},
		{"from another origin, with the token", with(request("POST", site), "X-CSRF-Token", csrf, "Origin", "https://evil.example"), token, false},
	} {
		err := f.console.CheckCSRF(c.r, c.token)
		if (err == nil) != c.isPermitted || err != nil && eventhook.KindOf(err) != eventhook.KindForbidden {
			t.Errorf("%s: got %v, want permitted %t", c.claim, err, c.isPermitted)
		}
	}
}

func TestEachPageHasAnotherCSRFToken(t *testing.T) {
	f := setUp(t)
	token := f.start(f.console, request("POST", site), session.Session{}).Value
	seen := map[string]bool{}
	for range 100 {
		raw, err := base64.RawURLEncoding.DecodeString(f.console.CSRFToken(token))
		f.must(err)
		for half := range slices.Chunk(raw, 32) {
			seen[string(half)] = true
		}
	}
	f.same("different halves of tokens", len(seen), 200)
}
