package ingest_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/verify"
)

const publicURL = "https://hooks.example"

// explainRequest returns a request to explain; headers are pairs of name and value.
func explainRequest(method, query, body string, headers ...string) *verify.Request {
	r := &verify.Request{Method: method, URL: publicURL + ingest.Path("acme", "crm") + query, Header: http.Header{}, Body: []byte(body), At: noon}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func explain(t *testing.T, s eventhook.Source, r *verify.Request) ingest.Explanation {
	t.Helper()
	x, err := ingest.Explain(t.Context(), s, publicURL, nil, r)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// sourceOf returns a source with the given Spec.
func sourceOf(s verify.Spec) eventhook.Source {
	source := newSource("acme", "crm")
	source.Provider, source.Verifier = s.Provider, spec(s)
	return source
}

func TestExplainVerifies(t *testing.T) {
	stripe := sourceOf(verify.Spec{Provider: "stripe", Secrets: []string{secret}})
	stamp := func(at time.Time, body string) string {
		s := strconv.FormatInt(at.Unix(), 10)
		return "t=" + s + ",v1=" + sign(s+"."+body)
	}
	disabled := newSource("acme", "crm")
	disabled.IsEnabled, disabled.TenantStatus = false, eventhook.TenantSuspended
	named := sourceOf(verify.Spec{Provider: "github", Verifier: &verify.Config{Type: "none"}})
	for _, c := range []struct {
		claim   string
		source  eventhook.Source
		request *verify.Request
		why     string // a prefix
		scheme  string
		covers  bool
	}{
		{"signed", newSource("acme", "crm"), explainRequest("POST", "", "b", "X-Sig", sign("b")), "", "hmac", true},
		{"signed, to a disabled source", disabled, explainRequest("POST", "", "b", "X-Sig", sign("b")), "", "hmac", true},
		{"without a signature", newSource("acme", "crm"), explainRequest("POST", "", "b"), "missing_header: no X-Sig", "hmac", true},
		{"with the signature of another body", newSource("acme", "crm"), explainRequest("POST", "", "b", "X-Sig", sign("c")), "mismatch: ", "hmac", true},
		{"within the tolerance", stripe, explainRequest("POST", "", "b", "Stripe-Signature", stamp(noon.Add(-time.Minute), "b")), "", "stripe", true},
		{"outside the tolerance", stripe, explainRequest("POST", "", "b", "Stripe-Signature", stamp(noon.Add(-time.Hour), "b")), "timestamp: signed 3600 s before", "stripe", true},
		{"a provider with its own verifier", named, explainRequest("POST", "", "b"), "", "none", false},
		{"to a source that awaits its secret", sourceOf(verify.Spec{Provider: "asana"}), explainRequest("POST", "", "b"), "key_not_found: ", "asana", true},
	} {
		x := explain(t, c.source, c.request)
		if got := verify.RefusalText(x.Err); !strings.HasPrefix(got, c.why) || (got == "") != (c.why == "") {
			t.Errorf("%s: got %q, want %q", c.claim, got, c.why)
		}
		if x.Scheme != c.scheme || x.CoversBody != c.covers {
			t.Errorf("%s: got scheme %s that covers the body: %t, want %s, %t", c.claim, x.Scheme, x.CoversBody, c.scheme, c.covers)
		}
	}
}

// The event of Explain has the same content as the stored event.
func TestExplainReturnsTheStoredEvent(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for claim, c := range map[string]struct {
		source  func(*eventhook.Source)
		body    string
		headers []string
	}{
		"own paths":              {func(s *eventhook.Source) { s.IdempotencyKeyPaths = []string{"header.x-id + body.a"} }, `{"a":"b","type":"t"}`, []string{"X-Id", "7"}},
		"a preset's":             {provider("github"), `{}`, []string{"X-GitHub-Event", "push", "X-GitHub-Delivery", "d", "Traceparent", trace, "X-Request-Id", "r"}},
		"credentials":            {provider("github"), `{}`, []string{"Authorization", "hunter2", "Cookie", "a=hunter2"}},
		"a form":                 {provider("stripe"), "id=1&type=charge", []string{"Content-Type", formType}},
		"no JSON or form":        {open, "\xff\x00", []string{"Content-Type", "image/png"}},
		"a repeated header":      {open, "", []string{"X-A", "1", "X-A", "2"}},
		"a key that is too long": {provider("stripe"), `{"id":"` + strings.Repeat("k", 300) + `"}`, nil},
		"a hash as the key":      {func(s *eventhook.Source) { s.IdempotencyKeyPaths = []string{"sha256.body"} }, "x", nil},
		"a host":                 {open, "", []string{"Host", "other.example:8080"}},
	} {
		t.Run(claim, func(t *testing.T) {
			r := newFixture(t, c.source)
			headers := append([]string{"X-Sig", sign(c.body)}, c.headers...)
			req := explainRequest("POST", "", c.body, headers...)
			before := req.Header.Clone()
			got := *explain(t, r.sources.list[0], req).Event
			if diff := cmp.Diff(before, req.Header); diff != "" {
				t.Errorf("Explain changed the request:\n%s", diff)
			}
			want := r.accepted(t, webhook(c.body, append([]string{"Host", "hooks.example"}, c.headers...)...))
			if diff := cmp.Diff(block(want), block(got)); diff != "" || strings.Contains(string(got.Headers), "hunter2") {
				t.Errorf("headers (-stored +explained):\n%s", diff)
			}
			want.Headers, want.ID, want.SourceIP, want.Lease, want.Status = got.Headers, got.ID, "", got.Lease, got.Status
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("event (-stored +explained):\n%s", diff)
			}
		})
	}
}

// TestExplainAgreesWithTheGateway explains and then sends the valid and invalid handshakes of
// testdata.
func TestExplainAgreesWithTheGateway(t *testing.T) {
	for _, c := range testCases(t) {
		if c.Path != "" {
			continue // not the source's own URL
		}
		t.Run(c.Name, func(t *testing.T) {
			r := c.fixture(t)
			query := ""
			if c.Query != "" {
				query = "?" + c.Query
			}
			req := explainRequest(c.Method, query, c.Body)
			req.At = r.clock.Now()
			for name, value := range c.Headers {
				req.Header.Set(name, value)
			}
			x := explain(t, r.sources.list[0], req)
			w := r.send(c.request())
			handshake := r.observer.outcomes[ingest.OutcomeHandshake] == 1
			if got := x.Handshake != "" && x.Refused == ""; got != handshake {
				t.Errorf("explained as the handshake %q, refused %q; answered %d", x.Handshake, x.Refused, w.Code)
			}
			stored := len(r.store.stored()) == 1
			if got := x.Handshake == "" && x.Refused == "" && x.Err == nil; got != stored {
				t.Errorf("explained as handshake %q, refused %q, error %v; answered %d", x.Handshake, x.Refused, x.Err, w.Code)
			}
			if x.Refused != "" && x.Err == nil && r.observer.outcomes[x.Refused] != 1 {
				t.Errorf("explained as refused for %q, got %v", x.Refused, r.observer.outcomes)
			}
			wantList(t, "learned secrets", r.learner.learned, c.Learns)
		})
	}
}

func TestExplainReportsRefusals(t *testing.T) {
	for _, c := range []struct {
		claim   string
		source  func(*eventhook.Source)
		request *verify.Request
		want    ingest.Outcome
	}{
		{"an accepted request", open, explainRequest("POST", "", "b"), ""},
		{"another method", open, explainRequest("GET", "", ""), ingest.OutcomeMethod},
		{"a body that is too large", func(s *eventhook.Source) { open(s); s.MaxBodyBytes = 2 }, explainRequest("POST", "", "abc"), ingest.OutcomeTooLarge},
		{"another content type", func(s *eventhook.Source) { open(s); s.ContentTypes = []string{"text/plain"} }, explainRequest("POST", "", "b"), ingest.OutcomeContentType},
		{"no key", func(s *eventhook.Source) { open(s); s.RequireIdempotencyKey = true }, explainRequest("POST", "", "b"), ingest.OutcomeKeyMissing},
	} {
		source := newSource("acme", "crm")
		c.source(&source)
		if got := explain(t, source, c.request).Refused; got != c.want {
			t.Errorf("%s: got %q, want %q", c.claim, got, c.want)
		}
	}
}

func TestExplainRejectsInvalidHTTP(t *testing.T) {
	bad := explainRequest("A B", "", "", "X-Good", "a\tb", "X-Bad", "a\r\nX-Other: b", "b c", "d")
	bad.URL = "hooks.example/in"
	_, err := ingest.Explain(t.Context(), newSource("acme", "crm"), publicURL, nil, bad)
	e, ok := errors.AsType[*eventhook.Error](err)
	if !ok || e.Kind != eventhook.KindInvalid {
		t.Fatalf("got %v, want KindInvalid", err)
	}
	var got []string
	for _, f := range e.Faults {
		got = append(got, f.Location)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"headers.X-Bad", "headers.b c", "method", "url"}, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestExplainOfAnInvalidSource(t *testing.T) {
	for _, c := range []struct {
		claim, verifier string
		kind            eventhook.Kind
	}{
		{"an unknown provider", `{"provider":"hunter2","secrets":["hunter3"]}`, eventhook.KindInvalid},
		{"a verifier that cannot be decoded", `{"secrets":"hunter3`, ""},
	} {
		source := newSource("acme", "crm")
		source.Verifier = eventhook.NewSecret(c.verifier)
		_, err := ingest.Explain(t.Context(), source, publicURL, nil, explainRequest("POST", "", ""))
		if err == nil || eventhook.KindOf(err) != c.kind || strings.Contains(err.Error(), "hunter3") {
			t.Errorf("%s: got %v, want kind %q and no secret", c.claim, err, c.kind)
		}
	}
}

// noKeys is a verify.Keys that records the URL and fails.
type noKeys struct{ requested *string }

func (k noKeys) Keys(_ context.Context, url, _ string) ([]verify.Key, error) {
	*k.requested = url
	return nil, errors.New("unreachable")
}

func TestExplainFetchesPublishedKeys(t *testing.T) {
	const url = "https://keys.example/jwks"
	source := newSource("acme", "crm")
	source.Verifier = verifier(verify.Config{Type: "jwt", KeySetURL: url})
	// A token whose header names a key; its claims are empty.
	token := explainRequest("POST", "", "", "Authorization", "Bearer eyJhbGciOiJSUzI1NiIsImtpZCI6ImsifQ.e30.AAAA")
	requested := ""
	x, err := ingest.Explain(t.Context(), source, publicURL, noKeys{&requested}, token)
	if err != nil || requested != url || !strings.HasPrefix(verify.RefusalText(x.Err), string(verify.ReasonUnavailable)) {
		t.Errorf("requested %q, got %v and %v; want %q and an unavailable key", requested, x.Err, err, url)
	}
}
