package api_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/labstack/echo/v4"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/bench/seed"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/internal/pgembed"
	"github.com/eventhook/eventhook/internal/pgtest"
	"github.com/eventhook/eventhook/verify"
)

const benchTenant = "bench"

// benchServer is the API on a durable database, served on loopback. The tenant has one
// source with a route.
type benchServer struct {
	*testing.B
	*seed.Database
	url string
}

func newBenchServer(b *testing.B, events, sources int) *benchServer {
	b.Helper()
	s := &benchServer{B: b}
	dsn := pgtest.NewServer(b).DSN(pgembed.Database)
	db, err := pg.Open(b.Context(), dsn, pg.Options{Sealer: plainSealer{}, Describe: verify.Describe, Log: slog.New(slog.DiscardHandler)})
	s.must(err)
	b.Cleanup(db.Close)
	const source = "github"
	_, err = db.ApplyTenant(b.Context(), operator, eventhook.TenantConfig{
		Tenant: eventhook.Tenant{Slug: benchTenant, Name: benchTenant},
		Sources: []eventhook.SourceConfig{{
			Source: eventhook.Source{Slug: source, Name: source, Verifier: eventhook.NewSecret(`{"verifier":{"type":"none"}}`), IsEnabled: true},
			Routes: []eventhook.Route{{Name: "pushes", IsEnabled: true,
				Targets: []eventhook.Target{{Type: eventhook.TargetTask, Settings: []byte(`{"task_kind":"build"}`)}}}},
		}},
	}, pg.ApplyOptions{})
	s.must(err)
	conn, err := pgx.Connect(b.Context(), dsn)
	s.must(err)
	b.Cleanup(func() { _ = conn.Close(context.Background()) })
	s.Database, err = seed.Open(b.Context(), conn, benchTenant, source, events, sources)
	s.must(err)
	router := echo.New()
	router.HTTPErrorHandler = api.HandleError
	api.Register(router, api.Deps{
		Events: db, Rejections: db, Work: db, Promises: db, Admin: db, Keys: db, Handshakes: db, Sources: db, RouteStore: db, EventTypes: db,
		Usage: db, Subscriptions: db, Deliveries: db, Explain: db, AdminKeys: []eventhook.Secret{eventhook.NewSecret(adminKey)}, OnWorkerAct: func(string, int) {},
		Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	server := httptest.NewServer(router)
	b.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *benchServer) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// request sends a request with the admin key and returns the body of a response with
// the status 200.
func (s *benchServer) request(method, path string, body []byte) []byte {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.url+path, bytes.NewReader(body))
	s.must(err)
	r.Header.Set("Authorization", "Bearer "+adminKey)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	s.must(err)
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	s.must(err)
	if res.StatusCode != http.StatusOK {
		s.Fatalf("%s %s: answered %s %s", method, path, res.Status, got)
	}
	return got
}
