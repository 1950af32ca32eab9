package ingest_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/verify"
)

// handshakeCase is a request to a source and the expected response.
type handshakeCase struct {
	Name     string
	Spec     verify.Spec
	Method   string
	Path     string // "" for the path of the source
	Query    string
	Headers  map[string]string
	Body     string
	Now      int64 // noon if 0
	Want     wantedAnswer
	Stored   int // events
	Learns   string
	Confirms string
}

type wantedAnswer struct {
	Status  int
	Headers map[string]string // "" if the header must be absent; a media type may have further parameters
	Body    *string           // nil if any body is accepted
}

func loadCases[T any](t testing.TB, file string) []T {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	if err := json.Unmarshal(data, &all); err != nil || len(all) == 0 {
		t.Fatalf("%s: %d cases, %v", file, len(all), err)
	}
	return all
}

func testCases(t testing.TB) []handshakeCase {
	return loadCases[handshakeCase](t, "testdata/handshakes.json")
}

// caseNamed returns the case of testdata with a name.
func caseNamed(t testing.TB, name string) handshakeCase {
	t.Helper()
	for _, c := range testCases(t) {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no case %q", name)
	return handshakeCase{}
}

func (c handshakeCase) request() *http.Request {
	r := unsignedRequest(c.Method, c.Query, c.Body)
	if c.Path != "" {
		r.URL.Path = c.Path
	}
	for name, value := range c.Headers {
		r.Header.Set(name, value)
	}
	return r
}

func (c handshakeCase) fixture(t testing.TB, changes ...any) *fixture {
	r := newFixture(t, append([]any{verifiedAs(c.Spec)}, changes...)...)
	if c.Now != 0 {
		r.clock.Advance(time.Unix(c.Now, 0).Sub(r.clock.Now()))
	}
	if ids := c.Spec.Options["service_ids"]; ids != "" {
		r.services.ids = []string{ids}
	}
	return r
}

// isAnswered reports whether the request is an accepted handshake.
func (c handshakeCase) isAnswered() bool { return c.Want.Status < 300 && c.Stored == 0 }

// check sends the request and checks the response and its side effects.
func (c handshakeCase) check(t *testing.T) {
	t.Helper()
	r := c.fixture(t)
	w := r.send(c.request())
	c.Want.check(t, w)
	r.wantStored(t, c.Stored)
	handshakes := 0
	if c.isAnswered() {
		handshakes = 1
		wantSafe(t, w)
	}
	wantCount(t, "handshakes", r.observer.outcomes[ingest.OutcomeHandshake], handshakes)
	wantCount(t, "kinds of outcomes", len(r.observer.outcomes), 1)
	wantList(t, "confirmed", r.confirmer.calls(), c.Confirms)
	wantList(t, "learned", r.learner.learned, c.Learns)
}

func (want wantedAnswer) check(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code != want.Status {
		t.Fatalf("answered %d %s, want %d", w.Code, w.Body, want.Status)
	}
	for name, value := range want.Headers {
		values := w.Header().Values(name)
		if value == "" && len(values) > 0 {
			t.Errorf("%s: got %q, want none", name, values)
		}
		got := strings.Join(values, " and ")
		if name == "Content-Type" && !strings.Contains(value, ";") {
			got, _, _ = strings.Cut(got, ";")
		}
		if got != value {
			t.Errorf("%s: got %q, want %q", name, got, value)
		}
	}
	if want.Body != nil {
		if diff := cmp.Diff(plainBody(*want.Body), plainBody(w.Body.String())); diff != "" {
			t.Errorf("body (-want +got):\n%s", diff)
		}
	}
}

// plainBody returns a body for comparison: the members of a JSON object, otherwise the text.
func plainBody(text string) any {
	var members map[string]any
	if json.Unmarshal([]byte(text), &members) == nil {
		return members
	}
	return text
}

// wantSafe checks for the headers that prevent a browser from running the response as a page.
func wantSafe(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	wantHeader(t, w, "X-Content-Type-Options", "nosniff")
	wantHeader(t, w, "Content-Security-Policy", "sandbox")
	types := []string{"", "text/plain; charset=utf-8", "application/json"}
	if got := w.Header().Get("Content-Type"); !slices.Contains(types, got) || got == "" && w.Body.Len() > 0 {
		t.Errorf("content type: got %q with %d bytes, want one of %q", got, w.Body.Len(), types[1:])
	}
}

// wantList checks that got has want as its only element, or no element if want is "".
func wantList(t *testing.T, what string, got []string, want string) {
	t.Helper()
	var list []string
	if want != "" {
		list = []string{want}
	}
	if diff := cmp.Diff(list, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestHandshakes(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range testCases(t) {
		preset, _ := verify.FindPreset(c.Spec.Provider, c.Spec.Scheme)
		seen[preset.Handshake] = seen[preset.Handshake] || c.isAnswered()
		t.Run(c.Name, c.check)
	}
	for name := range ingest.HandshakeMethods() {
		if !seen[name] {
			t.Errorf("the handshake %s has no case that it answers", name)
		}
	}
}
