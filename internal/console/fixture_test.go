package console_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/clocktest"
	"github.com/eventhook/eventhook/internal/console"
	"github.com/eventhook/eventhook/internal/session"
	"github.com/eventhook/eventhook/internal/session/sessiontest"
)

// today is the time of every test.
var today = time.Date(2026, 1, 31, 14, 2, 11, 0, time.UTC)

// T is the path of the tenant acme in the API.
const T = "/api/tenants/acme/eventhook"

// fixture is a console whose API gives prepared answers, and a browser that is signed in.
type fixture struct {
	*testing.T
	console  *console.Console
	config   console.Config
	api      *fakeAPI
	clock    *clocktest.Clock
	store    *sessiontest.Store
	sessions *session.Sessions
	cookie   *http.Cookie
	csrf     string
}

// newFixture returns a console for a person with a tenant's key that has all scopes.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureOf(t, client.Identity{Type: "tenant", Name: "ci", Tenant: &client.IdentityTenant{Slug: "acme", Name: "Acme", Status: "active"},
		Scopes: []string{"read", "manage", "publish", "work", "deliver"}})
}

// newFixtureOf returns a console for a person with the given identity.
func newFixtureOf(t *testing.T, who client.Identity) *fixture {
	t.Helper()
	f := &fixture{T: t, api: &fakeAPI{answers: map[string]any{}}, clock: clocktest.New(today)}
	f.store = sessiontest.NewStore(f.clock.Now)
	f.sessions = session.New(session.Config{Kind: session.Console, Cookies: session.ConsoleCookies(), Store: f.store, Now: f.clock.Now,
		Client: func(r *http.Request) netip.Addr { return netip.MustParseAddrPort(r.RemoteAddr).Addr() }})
	f.answer("GET /api/identity", who)
	f.answer("GET /api/admin/tenants/acme", client.Tenant{Slug: "acme", Name: "Acme"})
	f.config = console.Config{API: f.api, Sessions: f.sessions, Log: slog.New(slog.DiscardHandler), Now: f.clock.Now, Version: "test"}
	f.console = console.New(f.config)
	f.signInAs(session.Session{KeyHash: make([]byte, 32), Name: "ci"})
	return f
}

// signInAs gives the browser a session.
func (f *fixture) signInAs(s session.Session) {
	f.Helper()
	w := httptest.NewRecorder()
	if _, err := f.sessions.Start(f.Context(), w, f.request(http.MethodGet, "/console", nil), s); err != nil {
		f.Fatal(err)
	}
	f.cookie = w.Result().Cookies()[0]
	f.csrf = f.sessions.CSRFToken(f.cookie.Value)
}

// answer prepares the answer of the API to a method and path: a value for 200, or a
// *client.Problem. Several values are the answers to consecutive calls; the last one stays.
func (f *fixture) answer(call string, values ...any) {
	f.api.answers[call] = values
}

func (f *fixture) request(method, target string, form url.Values) *http.Request {
	r := httptest.NewRequest(method, "http://localhost"+target, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set("Accept-Encoding", "gzip")
	if f.cookie != nil {
		r.AddCookie(f.cookie)
	}
	return r
}

// reply is a response of the console.
type reply struct {
	*testing.T
	status int
	header http.Header
	body   string
}

// get opens a page.
func (f *fixture) get(target string) reply {
	f.Helper()
	return f.do(f.request(http.MethodGet, target, nil))
}

// post sends a form, with a CSRF token unless the form has a member csrf.
func (f *fixture) post(target string, form url.Values) reply {
	f.Helper()
	if form == nil {
		form = url.Values{}
	}
	if !form.Has("csrf") {
		form.Set("csrf", f.csrf)
	}
	return f.do(f.request(http.MethodPost, target, form))
}

func (f *fixture) do(r *http.Request) reply {
	f.Helper()
	w := httptest.NewRecorder()
	f.console.ServeHTTP(w, r)
	var body io.Reader = w.Body
	if w.Header().Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			f.Fatalf("%s %s: %v", r.Method, r.URL, err)
		}
		body = z
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		f.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	return reply{f.T, w.Code, w.Header(), string(raw)}
}

// shows fails the test unless the page has all texts, as markup.
func (r reply) shows(texts ...string) reply {
	r.Helper()
	for _, text := range texts {
		if !strings.Contains(r.body, text) {
			r.Errorf("the page (status %d) lacks %q:\n%s", r.status, text, r.main())
		}
	}
	return r
}

// lacks fails the test if the page has one of the texts.
func (r reply) lacks(texts ...string) reply {
	r.Helper()
	for _, text := range texts {
		if strings.Contains(r.body, text) {
			r.Errorf("the page (status %d) has %q:\n%s", r.status, text, r.main())
		}
	}
	return r
}

// is fails the test unless the response has a status.
func (r reply) is(status int) reply {
	r.Helper()
	if r.status != status {
		r.Errorf("status, got %d, want %d:\n%s", r.status, status, r.main())
	}
	return r
}

// redirects fails the test unless the response is a redirect to a path.
func (r reply) redirects(to string) reply {
	r.Helper()
	if got := r.header.Get("Location"); r.status != http.StatusSeeOther || got != to {
		r.Errorf("response, got %d to %q, want 303 to %q:\n%s", r.status, got, to, r.main())
	}
	return r
}

// main returns the content of a page without its frame.
func (r reply) main() string {
	_, after, found := strings.Cut(r.body, "<main")
	if !found {
		return r.body
	}
	content, _, _ := strings.Cut(after, "</main>")
	return "<main" + content
}

// fakeAPI answers calls with prepared values and records them.
type fakeAPI struct {
	mu      sync.Mutex
	answers map[string]any
	calls   []apiCall
}

// apiCall is a call of a page.
type apiCall struct{ Call, Query, Body string }

// ServeHTTP answers with the prepared value. A call that no test prepared is a 404.
func (a *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	call := r.Method + " " + r.URL.Path
	a.calls = append(a.calls, apiCall{call, r.URL.RawQuery, string(body)})
	values, ok := a.answers[call].([]any)
	if !ok {
		writeProblem(w, &client.Problem{Title: "Not Found", Status: http.StatusNotFound, Detail: "The test has no answer to " + call + "."})
		return
	}
	value := values[0]
	if len(values) > 1 {
		a.answers[call] = values[1:]
	}
	switch v := value.(type) {
	case *client.Problem:
		writeProblem(w, v)
	case http.HandlerFunc:
		v(w, r)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(value)
	}
}

func writeProblem(w http.ResponseWriter, p *client.Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("X-Request-Id", "req-1")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// called returns the last call of a method and path. It fails the test if there is none.
func (f *fixture) called(call string) apiCall {
	f.Helper()
	f.api.mu.Lock()
	defer f.api.mu.Unlock()
	for _, c := range slices.Backward(f.api.calls) {
		if c.Call == call {
			return c
		}
	}
	f.Fatalf("no call %s, got %v", call, f.api.calls)
	return apiCall{}
}

// asJSON returns a value as JSON.
func asJSON(v any) json.RawMessage {
	raw, _ := json.Marshal(v) // the tests have values that can be encoded
	return raw
}
