package ingest_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"go.uber.org/goleak"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/clocktest"
	"github.com/eventhook/eventhook/internal/usage"
	"github.com/eventhook/eventhook/internal/usage/usagetest"
	"github.com/eventhook/eventhook/verify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret = "s3cr3t-of-the-source"
	lease  = 30 * time.Second
)

// fixture is a Handler with fake dependencies. Requests to its source acme/crm are signed
// with secret.
type fixture struct {
	clock    *clocktest.Clock
	store    *store
	handoff  *handoff
	sources  *sources
	observer *observer
	log      *logBuffer
	used     *usagetest.Store
	meter    *usage.Meter
	batcher  *ingest.Batcher
	handler  *ingest.Handler
	router   *echo.Echo

	learner   *learner
	confirmer *confirmer
	services  *services
	unfit     error // of the instance
}

func testConfig() ingest.Config {
	c := ingest.DefaultConfig()
	c.PublicURL = "https://hooks.example/"
	return c
}

// newFixture starts a Batcher and a Handler. Each change is a func(*ingest.Config), a
// func(*eventhook.Source) or an ingest.Log in front of the database.
func newFixture(t testing.TB, changes ...any) *fixture {
	t.Helper()
	c := testConfig()
	source := newSource("acme", "crm")
	var front ingest.Log
	for _, change := range changes {
		switch change := change.(type) {
		case func(*ingest.Config):
			change(&c)
		case func(*eventhook.Source):
			change(&source)
		case ingest.Log:
			front = change
		default:
			t.Fatalf("a %T changes neither config nor source", change)
		}
	}
	r := &fixture{clock: clocktest.New(noon), store: newStore(), handoff: &handoff{slots: 1 << 30}, sources: &sources{list: []eventhook.Source{source}},
		observer: &observer{outcomes: map[ingest.Outcome]int{}}, log: &logBuffer{}, router: echo.New()}
	log := slog.New(slog.NewJSONHandler(r.log, nil))
	r.batcher = ingest.NewBatcher(c, lease, r.store, r.handoff, r.observer, log, r.clock.Now)
	r.used = usagetest.NewStore()
	r.meter = usage.New(c.CachedSources, r.used, log, r.clock.Now)
	r.learner, r.confirmer, r.services = &learner{sources: r.sources}, &confirmer{}, &services{}
	r.handler = ingest.NewHandler(c, ingest.Deps{Sources: r.sources, Acceptor: r.acceptor(c.Log, front), Observer: r.observer,
		Learner: r.learner, Confirm: r.confirmer.confirm, Services: r.services, Ready: func() error { return r.unfit }, Meter: r.meter, Log: log, Now: r.clock.Now})
	r.handler.Register(r.router)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = r.batcher.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		r.handoff.check(t)
	})
	return r
}

// acceptor returns the batcher, or log in front of it unless log is nil.
func (r *fixture) acceptor(c ingest.LogConfig, log ingest.Log) ingest.Acceptor {
	if log == nil {
		return r.batcher
	}
	return ingest.NewLogFront(c, log, r.batcher, nil, 1, func(string, time.Duration) {}, r.clock.Now)
}

func newSource(tenant, slug string) eventhook.Source {
	return eventhook.Source{
		ID: eventhook.NewID[eventhook.Source](noon), TenantID: eventhook.NewID[eventhook.Tenant](noon), TenantSlug: tenant, Slug: slug,
		TenantStatus: eventhook.TenantActive, IsEnabled: true, HandshakeOpenedAt: noon, Verifier: verifier(verify.Config{Type: "hmac", Header: "X-Sig", Secrets: []string{secret}}),
	}
}

func verifier(c verify.Config) eventhook.Secret { return spec(verify.Spec{Verifier: &c}) }

func spec(s verify.Spec) eventhook.Secret {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return eventhook.NewSecret(string(b))
}

// provider sets the provider of a source and lets the source accept unsigned requests.
func provider(id string) func(*eventhook.Source) {
	return func(s *eventhook.Source) {
		s.Provider = id
		s.Verifier = spec(verify.Spec{Provider: id, Verifier: &verify.Config{Type: "none"}})
	}
}

// open lets a source accept unsigned requests.
func open(s *eventhook.Source) { s.Verifier = verifier(verify.Config{Type: "none"}) }

func sign(body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = io.WriteString(mac, body)
	return hex.EncodeToString(mac.Sum(nil))
}

// webhook returns a signed request to acme/crm; headers are pairs of name and value.
func webhook(body string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, ingest.Path("acme", "crm"), strings.NewReader(body))
	r.Header.Set("X-Sig", sign(body))
	for pair := range slices.Chunk(headers, 2) {
		if strings.EqualFold(pair[0], "Host") {
			r.Host = pair[1]
			continue
		}
		r.Header.Add(pair[0], pair[1])
	}
	return r
}

func forgery(body string) *http.Request {
	r := webhook(body)
	r.Header.Set("X-Sig", sign(body+"!"))
	return r
}

func from(address string, r *http.Request) *http.Request {
	r.RemoteAddr = address
	return r
}

// chunked removes the Content-Length of a request.
func chunked(r *http.Request) *http.Request {
	r.ContentLength = -1
	r.Body = io.NopCloser(struct{ io.Reader }{r.Body})
	return r
}

func (r *fixture) send(req *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r.router.ServeHTTP(w, req)
	return w
}

func (r *fixture) wantStatus(t *testing.T, req *http.Request, want int) *httptest.ResponseRecorder {
	t.Helper()
	w := r.send(req)
	if w.Code != want {
		t.Errorf("answered %d %s, want %d", w.Code, w.Body, want)
	}
	return w
}

// accepted sends a webhook, fails the test unless it is stored, and returns the event.
func (r *fixture) accepted(t *testing.T, req *http.Request) eventhook.Event {
	t.Helper()
	before := len(r.store.stored())
	w := r.send(req)
	after := r.store.stored()
	if w.Code != http.StatusOK || len(after) != before+1 {
		t.Fatalf("answered %d %s, and %d events were stored; want 200 and one", w.Code, w.Body, len(after)-before)
	}
	return after[before]
}

// wantProblem checks that the response is a problem with exactly these members.
func wantProblem(t *testing.T, w *httptest.ResponseRecorder, status int, detail string) {
	t.Helper()
	want := fmt.Sprintf(`{"detail":%q,"status":%d,"title":%q}`, detail, status, http.StatusText(status))
	if status >= http.StatusInternalServerError {
		want = fmt.Sprintf(`%s,"request_id":%q}`, strings.TrimSuffix(want, "}"), w.Header().Get("X-Request-Id"))
	}
	if w.Code != status || w.Body.String() != want {
		t.Errorf("answered %d %s, want %d %s", w.Code, w.Body, status, want)
	}
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type: got %q, want application/problem+json", got)
	}
}

func wantHeader(t *testing.T, w *httptest.ResponseRecorder, name, want string) {
	t.Helper()
	if got := strings.Join(w.Header().Values(name), " and "); got != want {
		t.Errorf("%s: got %q, want %q", name, got, want)
	}
}

func (r *fixture) wantStored(t *testing.T, want int) {
	t.Helper()
	wantCount(t, "stored events", len(r.store.stored()), want)
}

// bodyHMAC verifies a signature of the body's field a.
var bodyHMAC = verify.Config{Type: "body_hmac", Path: "sig", Signed: "{field.a}", Secrets: []string{secret}}
