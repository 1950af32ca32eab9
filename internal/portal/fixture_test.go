package portal_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/branding"
	"github.com/eventhook/eventhook/internal/portal"
	"github.com/eventhook/eventhook/internal/portallink"
	"github.com/eventhook/eventhook/internal/session"
	"github.com/eventhook/eventhook/internal/session/sessiontest"
)

// today is the time of every test.
var today = time.Date(2026, 1, 31, 14, 2, 11, 0, time.UTC)

// T is the path of the tenant acme in the API.
const T = "/api/tenants/acme/eventhook"

const (
	scope  = "customer-42"
	attack = `"><script>alert(1)</script>`
)

// Ids of the tenant acme. own and ownDelivery are of the customer.
const (
	own         = "01a2c84f-0000-7000-8000-000000000001"
	ownDelivery = "01a2c84f-0000-7000-8000-0000000000d1"
	ownReplay   = "01a2c84f-0000-7000-8000-0000000000e1"
)

var linkKey = []byte("0123456789abcdef0123456789abcdef")

// fixture is a portal whose API gives prepared answers, and a browser.
type fixture struct {
	*testing.T
	portal  *portal.Portal
	api     *fakeAPI
	tenants *fakeTenants

	sessions *session.Sessions
	browser  map[string]*http.Cookie
	csrf     string
	now      time.Time
}

// newFixture returns a portal and a browser that entered it with a link for changes.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixtureOf(t, branding.Config{})
	f.enter(f.link(false))
	return f
}

func newFixtureOf(t *testing.T, look branding.Config) *fixture {
	t.Helper()
	f := &fixture{T: t, api: &fakeAPI{answers: map[string]any{}}, browser: map[string]*http.Cookie{}, now: today,
		tenants: &fakeTenants{tenant: eventhook.Tenant{ID: eventhook.NewID[eventhook.Tenant](today), Slug: "acme", Status: eventhook.TenantActive}}}
	now := func() time.Time { return f.now }
	client := func(r *http.Request) netip.Addr { return netip.MustParseAddrPort(r.RemoteAddr).Addr() }
	f.sessions = session.New(session.Config{Kind: session.Portal, Cookies: session.PortalCookies(), Store: sessiontest.NewStore(now), Now: now, Client: client})
	f.portal = portal.New(portal.Config{API: f.api, Sessions: f.sessions, Tenants: f.tenants, LinkKey: linkKey, Branding: look, Log: slog.New(slog.DiscardHandler), Now: now, Client: client})
	f.prepareCustomer()
	return f
}

// prepareCustomer prepares the answers for the customer's endpoint and delivery.
func (f *fixture) prepareCustomer() {
	e := client.Subscription{ID: own, Name: "Production", URL: "https://shop.example/…", Status: "active", ScopeFilter: []string{scope},
		EventTypes: []string{"order.created", "internal.*"}, Version: 3, Headers: map[string]string{"X-Env": "prod"}, CreatedAt: today}
	f.answer("GET "+T+"/subscriptions/"+own, e)
	f.answer("GET "+T+"/subscriptions", client.SubscriptionPage{Items: []client.Subscription{e}})
	f.answer("GET "+T+"/subscriptions/"+own+"/stats", client.SubscriptionStats{DeliveredLast24H: 1284})
	f.answer("GET "+T+"/subscriptions/"+own+"/replays", client.ReplayPage{})
	d := client.Delivery{ID: ownDelivery, EventType: "order.created", Status: "dead", CreatedAt: today, SubscriptionID: new(own)}
	f.answer("GET "+T+"/subscriptions/"+own+"/deliveries", client.DeliveryPage{Items: []client.Delivery{d}})
	f.answer("GET "+T+"/deliveries/"+ownDelivery, client.DeliveryDetail{ID: ownDelivery, EventType: "order.created", Status: "dead", CreatedAt: today, SubscriptionID: new(own)})
	f.answer("GET "+T+"/deliveries/"+ownDelivery+"/request", client.DeliveryRequest{Method: "POST", BodyBase64: []byte(`{"id":1}`)})
	f.answer("GET "+T+"/event-types", client.EventTypePage{Items: []client.EventType{
		{Name: "order.created", Visibility: "portal", Description: "An order was placed.", Category: "Orders",
			Schema: map[string]any{"type": "object", "properties": map[string]any{"total": map[string]any{"type": "integer"}}}},
		{Name: "order.paid", Visibility: "portal", Category: "Orders"},
		{Name: "margin.computed", Visibility: "tenant"}, {Name: "system.webhook_test", Visibility: "portal", IsBuiltin: true}}})
}

// link returns the path of a link for the customer that is valid for an hour.
func (f *fixture) link(isReadOnly bool) string {
	l := portallink.New(f.tenants.tenant.ID, scope, f.now, time.Hour)
	l.IsReadOnly = isReadOnly
	return "/portal/enter?code=" + url.QueryEscape(l.Sign(linkKey))
}

// enter opens a link and reads the token of forms from the first page.
func (f *fixture) enter(link string) {
	f.Helper()
	f.get(link).redirects("/portal/entered")
	f.get("/portal/entered").redirects("/portal")
	_, after, _ := strings.Cut(f.get("/portal").is(http.StatusOK).body, `data-csrf="`)
	f.csrf, _, _ = strings.Cut(after, `"`)
	f.api.calls = nil
}

// answer prepares the answer of the API to a method and path: a value for 200, or a *client.Problem.
func (f *fixture) answer(call string, value any) { f.api.answers[call] = value }

func (f *fixture) request(method, target string, form url.Values) *http.Request {
	r := httptest.NewRequest(method, "https://hooks.example"+target, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set("Accept-Encoding", "gzip")
	for _, cookie := range f.browser {
		r.AddCookie(cookie)
	}
	return r
}

// reply is a response of the portal.
type reply struct {
	*testing.T
	status int
	header http.Header
	body   string
}

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

// do sends a request and keeps the cookies of the answer, as a browser does.
func (f *fixture) do(r *http.Request) reply {
	f.Helper()
	w := httptest.NewRecorder()
	f.portal.ServeHTTP(w, r)
	for _, cookie := range w.Result().Cookies() {
		f.browser[cookie.Name] = cookie
		if cookie.MaxAge < 0 {
			delete(f.browser, cookie.Name)
		}
	}
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
			r.Errorf("the page (status %d) lacks %q:\n%s", r.status, text, r.body)
		}
	}
	return r
}

// lacks fails the test if the page has one of the texts.
func (r reply) lacks(texts ...string) reply {
	r.Helper()
	for _, text := range texts {
		if strings.Contains(r.body, text) {
			r.Errorf("the page (status %d) has %q:\n%s", r.status, text, r.body)
		}
	}
	return r
}

func (r reply) is(status int) reply {
	r.Helper()
	if r.status != status {
		r.Errorf("status, got %d, want %d:\n%s", r.status, status, r.body)
	}
	return r
}

func (r reply) redirects(to string) reply {
	r.Helper()
	if got := r.header.Get("Location"); r.status != http.StatusSeeOther || got != to {
		r.Errorf("response, got %d to %q, want 303 to %q:\n%s", r.status, got, to, r.body)
	}
	return r
}

// fakeTenants has one tenant.
type fakeTenants struct {
	tenant eventhook.Tenant
	found  int // calls of TenantSlugs
}

func (t *fakeTenants) TenantSlugs(_ context.Context, ids []eventhook.TenantID) (map[eventhook.TenantID]string, error) {
	t.found++
	if len(ids) == 1 && ids[0] == t.tenant.ID {
		return map[eventhook.TenantID]string{t.tenant.ID: t.tenant.Slug}, nil
	}
	return nil, nil
}

func (t *fakeTenants) Tenant(_ context.Context, slug string) (eventhook.Tenant, error) {
	if slug != t.tenant.Slug {
		return eventhook.Tenant{}, eventhook.NotFound("tenant")
	}
	return t.tenant, nil
}

// fakeAPI answers calls with prepared values and records them.
type fakeAPI struct {
	hold    chan struct{} // calls wait for it, unless it is nil
	held    atomic.Int64  // calls that have begun
	mu      sync.Mutex
	answers map[string]any
	calls   []apiCall
}

// apiCall is a call of a page.
type apiCall struct {
	Call, Query, Body, IfMatch string
	Session                    api.Session
}

// isChange reports whether a call changes something.
func (c apiCall) isChange() bool { return !strings.HasPrefix(c.Call, "GET ") }

// ServeHTTP answers with the prepared value. A call that no test prepared is a 404.
func (a *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.held.Add(1)
	if a.hold != nil {
		<-a.hold
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	call := r.Method + " " + r.URL.Path
	s, _ := api.SessionOf(r.Context())
	a.calls = append(a.calls, apiCall{call, r.URL.RawQuery, string(body), r.Header.Get("If-Match"), s})
	value, ok := a.answers[call]
	if !ok {
		value = &client.Problem{Title: "Not Found", Status: http.StatusNotFound, Detail: "The test has no answer to " + call + "."}
	}
	w.Header().Set("Content-Type", "application/json")
	if problem, isProblem := value.(*client.Problem); isProblem {
		w.Header().Set("Content-Type", "application/problem+json")
		problem.Title = http.StatusText(problem.Status)
		w.WriteHeader(problem.Status)
	}
	_ = json.NewEncoder(w).Encode(value)
}

// called returns the last call of a method and path. It fails the test if there is none.
func (f *fixture) called(call string) apiCall {
	f.Helper()
	for i := len(f.api.calls) - 1; i >= 0; i-- {
		if f.api.calls[i].Call == call {
			return f.api.calls[i]
		}
	}
	f.Fatalf("no call %s, got %v", call, f.api.calls)
	return apiCall{}
}

// changesNothing fails the test if a page called an operation that changes something.
func (f *fixture) changesNothing() {
	f.Helper()
	for _, c := range f.api.calls {
		if c.isChange() {
			f.Errorf("the page called %s %s, want no change", c.Call, c.Body)
		}
	}
}
