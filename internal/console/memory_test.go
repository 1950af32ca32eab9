package console_test

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/console"
	"github.com/eventhook/eventhook/internal/session"
	"github.com/eventhook/eventhook/internal/session/sessiontest"
)

// oneKey is a store with one key of acme.
type oneKey struct{ api.KeyStore }

var acme = eventhook.Tenant{ID: eventhook.TenantID{1}, Slug: "acme", Status: eventhook.TenantActive}

func (oneKey) Tenant(context.Context, string) (eventhook.Tenant, error) { return acme, nil }

func (oneKey) KeyByHash(_ context.Context, hash []byte) (eventhook.APIKey, eventhook.Tenant, error) {
	return eventhook.APIKey{ID: eventhook.KeyID(hash[:16]), TenantID: acme.ID, Name: "ci", Scopes: []eventhook.Scope{eventhook.ScopeRead}}, acme, nil
}

// TestPageHoldsTheMemoryOfItsCalls opens pages with a key whose requests may use the memory of one
// call at a time.
func TestPageHoldsTheMemoryOfItsCalls(t *testing.T) {
	now := func() time.Time { return today }
	router := echo.New()
	api.Register(router, api.Deps{Keys: oneKey{}, Limits: api.Limits{KeyBytes: 100 << 10}, OnWorkerAct: func(string, int) {}, Log: slog.New(slog.DiscardHandler), Now: now})
	hash := sha256.Sum256([]byte("key"))
	identity := func() int { // of another program with the same key
		w, ctx := httptest.NewRecorder(), api.WithSession(t.Context(), api.Session{KeyHash: hash[:]})
		router.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/identity", nil))
		return w.Code
	}
	beside := 0
	sessions := session.New(session.Config{Kind: session.Console, Cookies: session.ConsoleCookies(), Store: sessiontest.NewStore(now), Now: now})
	f := &fixture{T: t, console: console.New(console.Config{Sessions: sessions, Log: slog.New(slog.DiscardHandler), Now: now,
		API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			router.ServeHTTP(w, r)
			beside = identity()
		})})}
	w := httptest.NewRecorder()
	if _, err := sessions.Start(t.Context(), w, f.request(http.MethodGet, "/console", nil), session.Session{Kind: session.Console, KeyHash: hash[:]}); err != nil {
		t.Fatal(err)
	}
	f.cookie = w.Result().Cookies()[0]
	for range 3 {
		f.get("/console/nowhere").is(http.StatusNotFound).shows("No page of the console has this address")
		if beside != http.StatusTooManyRequests {
			t.Errorf("a request while the page is made, answered %d, want 429: the page holds the memory", beside)
		}
		if got := identity(); got != http.StatusOK {
			t.Errorf("a request after the page, answered %d, want 200", got)
		}
	}
}
