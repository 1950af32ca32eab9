package portal_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/branding"
	"github.com/eventhook/eventhook/internal/portallink"
)

// pending are requests that the API holds, or that wait for a slot.
type pending struct {
	wait sync.WaitGroup
	mu   sync.Mutex
	list []*httptest.ResponseRecorder // of responses
}

// start sends n equal requests and returns when each of them waits or has a response.
func (f *fixture) start(n int, method, target string, form url.Values) *pending {
	f.Helper()
	all := &pending{}
	for range n {
		r, w := f.request(method, target, form), httptest.NewRecorder()
		all.wait.Go(func() {
			f.portal.ServeHTTP(w, r)
			all.mu.Lock()
			defer all.mu.Unlock()
			all.list = append(all.list, w)
		})
	}
	synctest.Wait()
	return all
}

// statuses counts the responses by status. A refusal has a Retry-After.
func (p *pending) statuses(t *testing.T) map[int]int {
	t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	got := map[int]int{}
	for _, w := range p.list {
		got[w.Code]++
		if retry := w.Header().Get("Retry-After"); w.Code == http.StatusTooManyRequests && retry != "1" {
			t.Errorf("Retry-After, got %q, want 1", retry)
		}
	}
	return got
}

func (f *fixture) inFlight(claim string, want int64) {
	f.Helper()
	if got := f.api.held.Load(); got != want {
		f.Errorf("%s: %d calls are in flight, want %d", claim, got, want)
	}
}

func TestCustomerHasFewPagesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.api.held.Store(0)
		f.api.hold = make(chan struct{})
		pages := f.start(2+16+3, http.MethodGet, "/portal/endpoints/"+own, nil)
		f.inFlight("of one customer", 2)
		if got := pages.statuses(t); len(got) != 1 || got[http.StatusTooManyRequests] != 3 {
			t.Errorf("with 2 in flight and 16 waiting: answered %v, want 3 refusals", got)
		}
		other := &fixture{T: t, portal: f.portal, api: f.api, tenants: f.tenants, browser: map[string]*http.Cookie{},
			now: today}
		link := portallink.New(f.tenants.tenant.ID, "customer-43", today, time.Hour)
		other.get("/portal/enter?code=" + url.QueryEscape(link.Sign(linkKey))).redirects("/portal/entered")
		others := other.start(1, http.MethodGet, "/portal/types", nil)
		f.inFlight("with another customer", 3)
		time.Sleep(5 * time.Second)
		if got := pages.statuses(t); got[http.StatusTooManyRequests] != 3+16 {
			t.Errorf("after the wait: answered %v, want 19 refusals", got)
		}
		close(f.api.hold)
		pages.wait.Wait()
		others.wait.Wait()
		if got := pages.statuses(t); got[http.StatusOK] != 2 {
			t.Errorf("at the end: answered %v, want 2 pages", got)
		}
		f.get("/portal").is(http.StatusOK)
	})
}

// An endpoint can take a minute to answer a test. Meanwhile the customer has other pages, and no other test.
func TestCustomerHasOneTestInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, path := range []string{"/portal/endpoints/" + own + "/test", "/portal/endpoints/new"} {
			f := newFixture(t)
			f.api.held.Store(0)
			f.api.hold = make(chan struct{})
			form := url.Values{"csrf": {f.csrf}}
			tests := f.start(2, http.MethodPost, path, form)
			f.inFlight("tests", 1)
			time.Sleep(5 * time.Second)
			if got := tests.statuses(t); got[http.StatusTooManyRequests] != 1 {
				t.Errorf("%s: answered %v, want one refusal", path, got)
			}
			page := f.start(1, http.MethodGet, "/portal/types", nil)
			f.inFlight("a page beside a test", 2)
			close(f.api.hold)
			tests.wait.Wait()
			page.wait.Wait()
			if got := f.post(path, form); got.status == http.StatusTooManyRequests {
				t.Errorf("%s: the slot was not released", path)
			}
		}
	})
}

func TestAddressOpensFewLinks(t *testing.T) {
	f := newFixtureOf(t, branding.Config{})
	unknown := portallink.New(eventhook.NewID[eventhook.Tenant](today.Add(time.Second)), scope, today, time.Hour)
	link := "/portal/enter?code=" + url.QueryEscape(unknown.Sign(linkKey))
	const atOnce = 100
	for range atOnce {
		f.get(link).is(http.StatusForbidden)
	}
	refused := f.get(link).is(http.StatusTooManyRequests).shows("Too many links were opened from your address")
	if refused.header.Get("Retry-After") == "" || f.tenants.found != atOnce {
		t.Errorf("got Retry-After %q after %d look-ups, want one after %d", refused.header.Get("Retry-After"),
			f.tenants.found, atOnce)
	}
	other := f.request(http.MethodGet, f.link(false), nil)
	other.RemoteAddr = "203.0.113.9:1"
	f.do(other).redirects("/portal/entered")
	f.now = today.Add(time.Second)
	f.get(f.link(false)).redirects("/portal/entered")
}

// Programs that look at links send HEAD.
func TestHeadOpensNoLink(t *testing.T) {
	f := newFixtureOf(t, branding.Config{})
	got := f.do(f.request(http.MethodHead, f.link(false), nil)).is(http.StatusMethodNotAllowed)
	if got.header.Get("Set-Cookie") != "" || got.header.Get("Allow") != http.MethodGet {
		t.Errorf("headers, got %v, want no cookie", got.header)
	}
}
