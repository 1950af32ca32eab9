package ingest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/usage"
	"github.com/eventhook/eventhook/internal/usage/usagetest"
)

// noop is a Store, a Handoff and an observer that do nothing.
type noop struct{}

func (noop) Accept(_ context.Context, batch []*effects.Arrival) error {
	for _, a := range batch {
		a.Event.Status = eventhook.EventProcessing
	}
	return nil
}

func (noop) PlanArrival(*eventhook.Event) *effects.Settlement         { return nil }
func (noop) Planned([]*effects.Arrival)                               {}
func (noop) Reserve(n int) int                                        { return n }
func (noop) Release(int)                                              {}
func (noop) Put([]*eventhook.Event)                                   {}
func (noop) EventsLeft()                                              {}
func (noop) Answered(ingest.Outcome, string)                          {}
func (noop) Committed(_ []*effects.Arrival, _ time.Duration, _ error) {}

// discard is a ResponseWriter that records only the status.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

// anySource is a Sources that finds a source for every name.
type anySource struct{ source eventhook.Source }

func (a anySource) FindSource(_ context.Context, tenant, source string) (eventhook.Source, error) {
	s := a.source
	s.ID, s.TenantSlug, s.Slug = eventhook.NewID[eventhook.Source](noon), tenant, source
	return s, nil
}

// BenchmarkServe measures the accept path without network and database: signed webhooks of 1 KB
// with a key in a header, to one or to many sources, sequential or concurrent.
func BenchmarkServe(b *testing.B) {
	source := newSource("acme", "crm")
	limit(1_000_000, 60_000_000, 1_000_000)(&source)
	source.IdempotencyKeyPaths = []string{"header.x-delivery"}
	source.Quota = perDay(1 << 40)
	c := testConfig()
	log := slog.New(slog.DiscardHandler)
	batcher := ingest.NewBatcher(c, lease, noop{}, noop{}, noop{}, log, time.Now)
	router := echo.New()
	meter := usage.New(1, usagetest.NewStore(), log, time.Now)
	ingest.NewHandler(c, ingest.Deps{Sources: anySource{source}, Acceptor: batcher, Observer: noop{},
		Meter: meter, Log: log, Now: time.Now}).Register(router)
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = batcher.Run(ctx) })
	running.Go(func() { _ = meter.Run(ctx) })
	defer running.Wait()
	defer stop()
	body := `{"type":"order.paid","data":"` + strings.Repeat("x", 1000) + `"}`
	serve := func(req *http.Request, content *bytes.Reader, w *discard) {
		content.Reset([]byte(body))
		clear(w.header)
		w.status = http.StatusOK
		router.ServeHTTP(w, req)
		if w.status != http.StatusOK {
			b.Errorf("answered %d, want 200", w.status)
		}
	}
	request := func() (*http.Request, *bytes.Reader, *discard) {
		content := bytes.NewReader(nil)
		req := webhook(body, "Content-Type", "application/json", "X-Delivery", "1234", "User-Agent", "bench", "Accept", "*/*")
		req.Body = io.NopCloser(content)
		return req, content, &discard{header: http.Header{}}
	}
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		req, content, w := request()
		for b.Loop() {
			serve(req, content, w)
		}
	})
	b.Run("one, of 10000 sources", func(b *testing.B) {
		b.ReportAllocs()
		req, content, w := request()
		paths := make([]string, 10_000)
		for i := range paths {
			paths[i] = ingest.Path("acme", fmt.Sprintf("crm-%04d", i))
		}
		next := 0
		serveNext := func() {
			req.URL.Path, next = paths[next%len(paths)], next+1
			serve(req, content, w)
		}
		for range paths { // load each source
			serveNext()
		}
		for b.Loop() {
			serveNext()
		}
	})
	b.Run("many", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			req, content, w := request()
			for pb.Next() {
				serve(req, content, w)
			}
		})
	})
}
