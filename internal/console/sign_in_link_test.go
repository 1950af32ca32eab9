package console_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/session"
)

// link returns the code of a one-time link.
func (f *fixture) link() string {
	f.Helper()
	code, err := f.sessions.NewLink(f.Context(), session.Session{KeyHash: make([]byte, 32), Name: "admin key"}, time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	return code
}

func TestLinkSignsInOnceByItsButton(t *testing.T) {
	f := newFixture(t)
	f.cookie = nil
	code := f.link()
	for range 3 { // programs that show a preview of the link
		f.do(f.request(http.MethodHead, "/console/link?code="+code, nil)).is(http.StatusOK)
		page := f.get("/console/link?code="+code).is(http.StatusOK).shows(`name="code" value="`+code+`"`, `action="/console/link"`, "Sign in</button>")
		if cookie := page.header.Get("Set-Cookie"); cookie != "" {
			t.Errorf("cookie of the page, got %q, want none", cookie)
		}
	}
	signedIn := f.post("/console/link", url.Values{"code": {code}}).redirects("/console")
	f.post("/console/link", url.Values{"code": {code}}).is(http.StatusGone).shows("was used already")
	f.cookie = (&http.Response{Header: signedIn.header}).Cookies()[0]
	f.answer("GET "+T+"/events", client.EventPage{})
	f.get("/console/t/acme/events").is(http.StatusOK)
	f.post("/console/link", url.Values{"code": {code}}).redirects("/console") // the button was pressed twice
}

func TestLinkOfAnotherSiteSignsNobodyIn(t *testing.T) {
	f := newFixture(t)
	r := f.request(http.MethodPost, "/console/link", url.Values{"code": {f.link()}})
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if got := f.do(r).is(http.StatusForbidden).header.Get("Set-Cookie"); got != "" {
		t.Errorf("cookie, got %q, want none", got)
	}
}

func TestCodeOfALinkIsText(t *testing.T) {
	f := newFixture(t)
	f.get("/console/link?code=" + url.QueryEscape(attack)).is(http.StatusOK).lacks("<script>alert")
}
