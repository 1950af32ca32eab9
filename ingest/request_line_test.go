package ingest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/payload"
	"github.com/eventhook/eventhook/verify"
)

func TestAnEventKeepsMethodPathSuffixAndQuery(t *testing.T) {
	type request struct{ Method, Suffix, Query string }
	for claim, c := range map[string]struct {
		sent   string
		change func(*eventhook.Source)
		want   request
	}{
		"the URL of the source":    {"POST ", open, request{"POST", "", ""}},
		"a path":                   {"POST /orders/opened", open, request{"POST", "/orders/opened", ""}},
		"an escaped path":          {"POST /a%2Fb%20c/%C3%A4", open, request{"POST", "/a%2Fb%20c/%C3%A4", ""}},
		"dots in names":            {"POST /...%00/.well-known/a..b/c.", open, request{"POST", "/...%00/.well-known/a..b/c.", ""}},
		"a slash":                  {"POST /", open, request{"POST", "/", ""}},
		"a query":                  {"POST ?region=eu&x=http://y/:z", open, request{"POST", "", "region=eu&x=http://y/:z"}},
		"both":                     {"POST /a?b=c?d", open, request{"POST", "/a", "b=c?d"}},
		"credentials in the query": {"POST ?a=1&TOKEN=s&access%5Ftoken=s&b", open, request{"POST", "", "a=1&TOKEN=[redacted]&access%5Ftoken=[redacted]&b"}},
		"the verifier's parameter": {"POST ?k%65y=hunter2&n=1", keyInQuery, request{"POST", "", "k%65y=[redacted]&n=1"}},
		"another method":           {"GET /sms?From=1&Body=hi", provider("twilio"), request{"GET", "/sms", "From=1&Body=hi"}},
	} {
		t.Run(claim, func(t *testing.T) {
			method, target, _ := strings.Cut(c.sent, " ")
			r := newFixture(t, c.change)
			req := httptest.NewRequest(method, ingest.Path("acme", "crm")+target, strings.NewReader(""))
			req.Header.Set("X-Kept", "v")
			block := payload.HeaderBlock(r.accepted(t, req).Headers)
			var got request
			got.Method, got.Suffix, got.Query = block.Request()
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			for name := range block.All() {
				if strings.HasPrefix(name, ":") {
					t.Errorf("All yields %q, want headers only", name)
				}
			}
			if block.Get("X-Kept") != "v" || strings.Contains(string(block), "hunter2") {
				t.Errorf("stored %q, want the headers, and no credentials", block)
			}
			if plain := c.want == (request{Method: "POST"}); plain != !strings.Contains(string(block), payload.PathField) {
				t.Errorf("stored %q, want a request line only if the request differs from a POST to the source", block)
			}
		})
	}
}

func TestAnEventKeepsHowItWasVerified(t *testing.T) {
	for claim, c := range map[string]struct {
		change func(*eventhook.Source)
		want   payload.Verification
	}{
		"one secret": {func(*eventhook.Source) {}, payload.Verification{Scheme: "hmac", Secret: 1, Of: 1}},
		"the second secret": {func(s *eventhook.Source) {
			s.Verifier = verifier(verify.Config{Type: "hmac", Header: "X-Sig", Secrets: []string{"new", secret}})
		}, payload.Verification{Scheme: "hmac", Secret: 2, Of: 2}},
		"no verification": {open, payload.Verification{Scheme: "none"}},
	} {
		e := newFixture(t, c.change).accepted(t, webhook(`{"a":1}`))
		if got, ok := payload.HeaderBlock(e.Headers).Verification(); !ok || got != c.want {
			t.Errorf("%s: got %+v, %t; want %+v", claim, got, ok, c.want)
		}
		if string(e.Body) != `{"a":1}` {
			t.Errorf("%s: stored the body %q", claim, e.Body)
		}
	}
}

func TestASignatureOfTheURLCoversThePathSuffix(t *testing.T) {
	signsURL := func(s *eventhook.Source) {
		s.Verifier = verifier(verify.Config{Type: "hmac", Header: "X-Sig", Signed: "{method} {url} {body}", Secrets: []string{secret}})
	}
	const suffix = "/a%20b/?c=d"
	for signed, status := range map[string]int{"POST https://hooks.example" + ingest.Path("acme", "crm") + suffix + " body": http.StatusOK,
		"POST https://hooks.example" + ingest.Path("acme", "crm") + " body": http.StatusUnauthorized} {
		req := httptest.NewRequest(http.MethodPost, ingest.Path("acme", "crm")+suffix, strings.NewReader("body"))
		req.Header.Set("X-Sig", sign(signed))
		newFixture(t, signsURL).wantStatus(t, req, status)
	}
}

func TestAPathSuffixBypassesNoCheck(t *testing.T) {
	for claim, c := range map[string]struct {
		req    *http.Request
		status int
	}{
		"a forgery":                {below(forgery("x"), "/a"), http.StatusUnauthorized},
		"another source":           {httptest.NewRequest(http.MethodPost, ingest.Path("acme", "other")+"/crm", nil), http.StatusNotFound},
		"an escaped slash":         {httptest.NewRequest(http.MethodPost, ingest.Path("acme", "crm%2Fa"), nil), http.StatusNotFound},
		"dot segments":             {httptest.NewRequest(http.MethodPost, ingest.Path("acme", "crm")+"/a/../other", nil), http.StatusNotFound},
		"escaped dot segments":     {httptest.NewRequest(http.MethodPost, ingest.Path("acme", "crm")+"/%2e%2E%2Fother", nil), http.StatusNotFound},
		"a backslash":              {httptest.NewRequest(http.MethodPost, ingest.Path("acme", "crm")+"/a%5C.", nil), http.StatusNotFound},
		"an unknown method":        {httptest.NewRequest("PURGE", ingest.Path("acme", "crm")+"/a/b", nil), http.StatusMethodNotAllowed},
		"a method that is refused": {httptest.NewRequest(http.MethodDelete, ingest.Path("acme", "crm")+"/a/b", nil), http.StatusMethodNotAllowed},
	} {
		r := newFixture(t)
		if w := r.send(c.req); w.Code != c.status {
			t.Errorf("%s: answered %d %s, want %d", claim, w.Code, w.Body, c.status)
		}
		r.wantStored(t, 0)
	}
}

// below adds a suffix to the path of a request.
func below(r *http.Request, suffix string) *http.Request {
	r.URL.Path += suffix
	return r
}

func keyInQuery(s *eventhook.Source) {
	s.Verifier = verifier(verify.Config{Type: "api_key", Query: "key", Values: []string{"hunter2"}})
}
