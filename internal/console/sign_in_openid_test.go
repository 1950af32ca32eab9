package console_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/console"
	"github.com/eventhook/eventhook/internal/session"
)

// fakeOpenID is a provider whose sign-ins a test determines.
type fakeOpenID struct {
	calls   int
	session session.Session
	next    string
	err     error
	grant   *eventhook.Grant
}

func (*fakeOpenID) Name() string { return "Acme SSO" }

func (o *fakeOpenID) Begin(w http.ResponseWriter, r *http.Request, next string) error {
	o.calls++
	http.Redirect(w, r, "https://login.example/?next="+next, http.StatusSeeOther)
	return o.err
}

func (o *fakeOpenID) Finish(http.ResponseWriter, *http.Request) (session.Session, string, error) {
	o.calls++
	return o.session, o.next, o.err
}

func (o *fakeOpenID) Grant(session.Session) *eventhook.Grant { return o.grant }

var ada = session.Session{Name: "ada@acme.example", Person: &session.Person{Claim: "groups", Values: []string{"pay"}}}

// newFixtureWithOpenID returns a console with a provider, and a browser that is not signed in.
func newFixtureWithOpenID(t *testing.T) (*fixture, *fakeOpenID) {
	t.Helper()
	f, at := newFixture(t), &fakeOpenID{session: ada, grant: &eventhook.Grant{Name: ada.Name, Tenants: map[string][]eventhook.Scope{"acme": {eventhook.ScopeRead}}}}
	f.cookie, f.config.OpenID = nil, at
	f.console = console.New(f.config)
	return f, at
}

const callback = "/console/openid/callback?code=x&state=y"

func TestPersonContinuesToAPageOfTheConsole(t *testing.T) {
	for next, want := range map[string]string{"/console/t/acme/events?status=dead": "/console/t/acme/events?status=dead", "https://evil.example": "/console",
		"/console/../portal/enter?code=x": "/console", "javascript:alert(1)": "/console"} {
		f, at := newFixtureWithOpenID(t)
		at.next = next
		page := f.get(callback).is(http.StatusOK).shows(`content="0; url=`+want+`"`, `href="`+want+`"`)
		if cookie := page.header.Get("Set-Cookie"); !strings.Contains(cookie, "eventhook_console=") {
			t.Errorf("cookie, got %q, want a session", cookie)
		}
	}
}

func TestHeadUsesNoSignInUp(t *testing.T) {
	f, at := newFixtureWithOpenID(t)
	for _, path := range []string{"/console/openid", callback} {
		page := f.do(f.request(http.MethodHead, path, nil)).is(http.StatusMethodNotAllowed)
		if page.header.Get("Allow") != "GET" || page.header.Get("Set-Cookie") != "" || at.calls > 0 {
			t.Errorf("%s: got the headers %v and %d calls", path, page.header, at.calls)
		}
	}
}

func TestRefusedPersonIsTold(t *testing.T) {
	f, at := newFixtureWithOpenID(t)
	before := f.store.Audit()
	at.session, at.err = session.Session{}, errors.New("The provider refused the sign-in.")
	f.get(callback).is(http.StatusForbidden).shows("The provider refused the sign-in.", "Acme SSO")
	at.session, at.err = session.Session{Name: "mallory"}, errors.New("Nothing grants you access.")
	f.get(callback).is(http.StatusForbidden).shows("Nothing grants you access.")
	at.session, at.err = session.Session{}, &eventhook.Error{Kind: eventhook.KindRateLimited, RetryAfter: 1500 * time.Millisecond, Message: "Too many sign-ins."}
	if got := f.get(callback).is(http.StatusTooManyRequests).shows("Too many sign-ins.").header.Get("Retry-After"); got != "2" {
		t.Errorf("Retry-After, got %q, want 2", got)
	}
	if got := f.store.Audit()[len(before):]; !slices.Equal(got, []string{"session.refused mallory"}) {
		t.Errorf("audit entries, got %v, want the one of mallory", got)
	}
}

func TestPersonHasThePermissionsOfTheConfiguration(t *testing.T) {
	f, at := newFixtureWithOpenID(t)
	f.signInAs(ada)
	var got api.Session
	f.answer("GET "+T+"/events", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ = api.SessionOf(r.Context())
		_, _ = w.Write([]byte(`{"items":[]}`))
	}))
	f.get("/console/t/acme/events").is(http.StatusOK)
	if got.Grant != at.grant || got.Via != "console" {
		t.Errorf("session for the API, got %+v, want the grant", got)
	}
	at.grant = nil // the configuration grants nothing any more
	f.api.calls = nil
	f.get("/console/t/acme/stream").is(http.StatusUnauthorized)
	f.get("/console/t/acme/events").redirects("/console/sign-in?next=%2Fconsole%2Ft%2Facme%2Fevents")
	at.grant = &eventhook.Grant{Name: ada.Name, Admin: true}
	f.get("/console/t/acme/events").redirects("/console/sign-in?next=%2Fconsole%2Ft%2Facme%2Fevents") // the session has ended
	if len(f.api.calls) > 0 {
		t.Errorf("calls without permissions, got %v", f.api.calls)
	}
}

func TestPersonOfAProviderThatIsNotConfiguredHasNoPermissions(t *testing.T) {
	f := newFixture(t)
	s := ada
	s.Grant = &eventhook.Grant{Admin: true} // is not looked at
	f.signInAs(s)
	f.answer("GET "+T+"/events", client.EventPage{})
	f.get("/console/t/acme/events").redirects("/console/sign-in?next=%2Fconsole%2Ft%2Facme%2Fevents")
}
