package ingest_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/verify"
)

// learner keeps the contract of ingest.Learner over the rig's sources.
type learner struct {
	sources *sources
	err     error
	learned []string
}

func (l *learner) LearnSecret(ctx context.Context, id eventhook.SourceID, secret eventhook.Secret) error {
	l.sources.mu.Lock()
	defer l.sources.mu.Unlock()
	if err := errors.Join(ctx.Err(), l.err); err != nil {
		return err
	}
	i := slices.IndexFunc(l.sources.list, func(s eventhook.Source) bool { return s.ID == id })
	if i < 0 || len(l.sources.list[i].LearnedSecrets) > 0 {
		return &eventhook.Error{Kind: eventhook.KindConflict, Message: "there is one"}
	}
	l.sources.list[i].LearnedSecrets = []eventhook.Secret{secret}
	l.learned = append(l.learned, secret.Reveal())
	return nil
}

// confirmer is an ingest.Confirm that calls nobody.
type confirmer struct {
	mu     sync.Mutex
	err    error
	hangs  bool
	called []string
}

func (c *confirmer) confirm(ctx context.Context, url string) error {
	c.mu.Lock()
	c.called = append(c.called, url)
	hangs, err := c.hangs, c.err
	c.mu.Unlock()
	if hangs {
		<-ctx.Done()
	}
	return errors.Join(ctx.Err(), err)
}

// services keeps the contract of ingest.Services, and counts.
type services struct {
	ids   []string
	err   error
	calls int
}

func (s *services) FastlyServices(ctx context.Context) ([]string, error) {
	s.calls++
	return s.ids, errors.Join(ctx.Err(), s.err)
}

var (
	_ ingest.Learner  = (*learner)(nil)
	_ ingest.Confirm  = (*confirmer)(nil).confirm
	_ ingest.Services = (*services)(nil)
)

// like makes the source as s says.
func like(s verify.Spec) func(*eventhook.Source) {
	return func(source *eventhook.Source) { source.Provider, source.Verifier = s.Provider, spec(s) }
}

// asking is a request to acme/crm that nothing signs; headers are names and
// values.
func asking(method, query, body string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, ingest.Path("acme", "crm"), strings.NewReader(body))
	r.URL.RawQuery = query
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Add(pair[0], pair[1])
	}
	return r
}

// handshakeCase is a request to a source and the answer to it.
type handshakeCase struct {
	Name     string
	Spec     verify.Spec
	Method   string
	Path     string // the source's if empty
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
	Headers map[string]string // an empty one must not be there; a media type may have parameters
	Body    *string           // nil: any
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

func ownCases(t testing.TB) []handshakeCase {
	return loadCases[handshakeCase](t, "testdata/handshakes.json")
}

// caseNamed is the one of our own cases with a name.
func caseNamed(t testing.TB, name string) handshakeCase {
	t.Helper()
	for _, c := range ownCases(t) {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no case %q", name)
	return handshakeCase{}
}

func (c handshakeCase) request() *http.Request {
	r := asking(c.Method, c.Query, c.Body)
	if c.Path != "" {
		r.URL.Path = c.Path
	}
	for name, value := range c.Headers {
		r.Header.Set(name, value)
	}
	return r
}

func (c handshakeCase) rig(t testing.TB, changes ...any) *rig {
	r := newRig(t, append([]any{like(c.Spec)}, changes...)...)
	if c.Now != 0 {
		r.clock.at = time.Unix(c.Now, 0)
	}
	if ids := c.Spec.Options["service_ids"]; ids != "" {
		r.services.ids = []string{ids}
	}
	return r
}

// isAnswered reports whether the case is a handshake that is answered.
func (c handshakeCase) isAnswered() bool { return c.Want.Status < 300 && c.Stored == 0 }

// check sends the request, and wants the answer and what comes with it.
func (c handshakeCase) check(t *testing.T) {
	t.Helper()
	r := c.rig(t)
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
	wantList(t, "confirmed", r.confirmer.called, c.Confirms)
	wantList(t, "learned", r.learner.learned, c.Learns)
}

func (want wantedAnswer) check(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code != want.Status {
		t.Fatalf("answered %d %s, want %d", w.Code, w.Body, want.Status)
	}
	for name, value := range want.Headers {
		got := strings.Join(w.Header().Values(name), " and ")
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

// plainBody is a body to compare: of JSON objects their members, else the text.
func plainBody(text string) any {
	var members map[string]any
	if json.Unmarshal([]byte(text), &members) == nil {
		return members
	}
	return text
}

// wantSafe wants what keeps an answer from acting as a page.
func wantSafe(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	wantHeader(t, w, "X-Content-Type-Options", "nosniff")
	wantHeader(t, w, "Content-Security-Policy", "sandbox")
	types := []string{"", "text/plain; charset=utf-8", "application/json"}
	if got := w.Header().Get("Content-Type"); !slices.Contains(types, got) || got == "" && w.Body.Len() > 0 {
		t.Errorf("content type: got %q with %d bytes, want one of %q", got, w.Body.Len(), types[1:])
	}
}

// wantList wants a list of one text, or of none if it is empty.
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
	for _, c := range ownCases(t) {
		preset, _ := verify.FindPreset(c.Spec.Provider, c.Spec.Scheme)
		seen[preset.Handshake] = seen[preset.Handshake] || c.isAnswered()
		t.Run(c.Name, c.check)
	}
	for name := range ingest.HandshakeMethods() {
		if !seen[name] {
			t.Errorf("no case is answered by %s", name)
		}
	}
}

// sharedHandshake is a case as it was collected from a provider.
type sharedHandshake struct {
	Provider, Name string
	Request        struct {
		Method    string
		PathQuery string `json:"path_query"`
		Headers   map[string]string
		Body      string
	}
	Expect    wantedAnswer
	Secret    *string
	PublicKey string `json:"public_key"`
	Config    struct {
		VerifyToken string   `json:"verify_token"`
		PublicKeyID string   `json:"public_key_id"`
		Endpoint    string   `json:"endpoint"`
		ServiceIDs  []string `json:"service_ids"`
		Outbound    string   `json:"outbound"`
	}
	Now *int64
}

// ebayKey is any key: the challenge needs none, its source does.
const ebayKey = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q=="

func (s sharedHandshake) spec() verify.Spec {
	spec := verify.Spec{Provider: s.Provider, Options: map[string]string{}}
	for name, value := range map[string]string{"verify_token": s.Config.VerifyToken, "public_key_id": s.Config.PublicKeyID,
		"endpoint": s.Config.Endpoint, "service_ids": strings.Join(s.Config.ServiceIDs, ",")} {
		if value != "" {
			spec.Options[name] = value
		}
	}
	preset, _ := verify.FindPreset(s.Provider, "")
	switch {
	case s.Secret != nil:
		spec.Secrets = []string{*s.Secret}
	case s.PublicKey == "" && !preset.LearnsSecret:
		spec.Verifier = &verify.Config{Type: "none"}
	}
	if s.PublicKey != "" {
		spec.PublicKeys = []string{s.PublicKey}
	}
	if s.Provider == "ebay" {
		spec.PublicKeys = []string{ebayKey}
	}
	return spec
}

func (s sharedHandshake) own(t *testing.T) handshakeCase {
	c := handshakeCase{Name: s.Provider + ": " + s.Name, Spec: s.spec(), Method: s.Request.Method, Headers: s.Request.Headers,
		Body: s.Request.Body, Want: s.Expect}
	path, query, _ := strings.Cut(s.Request.PathQuery, "?")
	c.Query = query
	if path == ingest.FastlyPath {
		c.Path = path
	}
	if s.Now != nil {
		c.Now = *s.Now
	}
	if s.Provider == "github" {
		c.Stored = 1
	}
	preset, _ := verify.FindPreset(s.Provider, "")
	if preset.LearnsSecret {
		c.Learns = s.Request.Headers["X-Hook-Secret"]
		if c.Learns == "" {
			c.Learns = memberOf(t, s.Request.Body, "verification_token")
		}
	}
	if s.Config.Outbound != "" {
		c.Confirms = memberOf(t, s.Request.Body, "SubscribeURL")
	}
	return c
}

func memberOf(t *testing.T, body, name string) string {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal([]byte(body), &members); err != nil {
		t.Fatal(err)
	}
	text, _ := members[name].(string)
	return text
}

// TestSharedHandshakes runs those collected from providers, which are not ours
// to copy.
func TestSharedHandshakes(t *testing.T) {
	const file = "../../shared/handshakes.json"
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		t.Skipf("%s is absent: the providers' own handshakes were not run", file)
	}
	all := loadCases[sharedHandshake](t, file)
	for _, s := range all {
		t.Run(s.Provider+": "+s.Name, func(t *testing.T) { s.own(t).check(t) })
	}
	t.Logf("%d handshakes", len(all))
}

// Who changes a preset or a handshake changes both.
func TestPresetsNameTheirHandshakes(t *testing.T) {
	methods, used := ingest.HandshakeMethods(), map[string]bool{"": true}
	for _, p := range verify.Presets() {
		used[p.Handshake] = true
		if p.Handshake == "" {
			continue
		}
		takes, ok := methods[p.Handshake]
		if !ok {
			t.Errorf("%s: there is no handshake %q", p.ID, p.Handshake)
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(p.Methods)), slices.Sorted(slices.Values(takes))); diff != "" {
			t.Errorf("%s: methods of its handshake (-preset +handshake):\n%s", p.ID, diff)
		}
	}
	for name := range maps.Keys(methods) {
		if !used[name] {
			t.Errorf("no preset has the handshake %q", name)
		}
	}
}
