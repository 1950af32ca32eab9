package api

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/clients"
)

// publishKey is a KeyStore for which every key belongs to acme and has the scope
// publish.
type publishKey struct{ oneTenant }

func (publishKey) KeyByHash(context.Context, []byte) (eventhook.APIKey, eventhook.Tenant, error) {
	return eventhook.APIKey{ID: eventhook.KeyID{7}, TenantID: eventhook.TenantID{1}, Name: "bench", Scopes: []eventhook.Scope{eventhook.ScopePublish}},
		eventhook.Tenant{ID: eventhook.TenantID{1}, Slug: "acme", Status: eventhook.TenantActive}, nil
}

// discard is a ResponseWriter that stores only the status.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

// BenchmarkPublish sends requests to publish an event of 1 KB, without network and
// database.
func BenchmarkPublish(b *testing.B) {
	e := echo.New()
	var trusted clients.Ranges
	Register(e, Deps{Keys: publishKey{}, Publisher: stubPublisher{}, AdminKeys: []eventhook.Secret{eventhook.NewSecret("the admin's")}, OnWorkerAct: func(string, int) {},
		ClientAddress: func(r *http.Request) netip.Addr { return trusted.Sender(r) }, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	for name, body := range map[string]string{
		"plain":   `{"event_type":"order.made","data":{"text":"` + strings.Repeat("x", 1000) + `"}}`,
		"members": `{"event_type":"order.made","idempotency_key":"k-1","scope":"shop/7","actor":{"id":7,"name":"Ann"},"metadata":{"a":1},"data":{"text":"` + strings.Repeat("x", 1000) + `"}}`,
		"numbers": `{"event_type":"order.made","data":[` + strings.Repeat(`{"id":12345,"ok":true},`, 45) + `{}]}`,
	} {
		b.Run(name, func(b *testing.B) {
			content := bytes.NewReader(nil)
			r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://gateway/api/tenants/acme/eventhook/events", io.NopCloser(content))
			if err != nil {
				b.Fatal(err)
			}
			r.RemoteAddr = "192.0.2.1:4711"
			for name, value := range map[string]string{"Authorization": "Bearer ehk_" + strings.Repeat("A", 43), "Content-Type": "application/json",
				"User-Agent": "bench", "Accept": "*/*"} {
				r.Header.Set(name, value)
			}
			w := &discard{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				content.Reset([]byte(body))
				r.Body, r.ContentLength = io.NopCloser(content), int64(len(body))
				clear(w.header)
				w.status = 0
				e.ServeHTTP(w, r)
				if w.status != http.StatusAccepted {
					b.Fatalf("answered %d, want 202", w.status)
				}
			}
		})
	}
}
