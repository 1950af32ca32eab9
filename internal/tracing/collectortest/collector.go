// Package collectortest is a collector for tests. It implements the OpenTelemetry protocol (OTLP
// 1.x, traces) over gRPC and over HTTP with protobuf, and keeps the spans that it receives.
package collectortest

import (
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // for exporters that compress
	"google.golang.org/protobuf/proto"
)

// Collector receives spans on two addresses of the loopback interface until the test ends. Safe
// for concurrent use.
type Collector struct {
	GRPC, HTTP string // URLs for OTEL_EXPORTER_OTLP_ENDPOINT

	collector.UnimplementedTraceServiceServer
	mu       sync.Mutex
	spans    []Span
	requests int
	headers  http.Header // of the last request by HTTP
}

// New starts a collector.
func New(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	collector.RegisterTraceServiceServer(s, c)
	go func() { _ = s.Serve(l) }() // Stop ends it
	t.Cleanup(s.Stop)
	h := httptest.NewServer(c)
	t.Cleanup(h.Close)
	c.GRPC, c.HTTP = "http://"+l.Addr().String(), h.URL
	return c
}

// Export implements the gRPC service.
func (c *Collector) Export(_ context.Context, q *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.keep(q, nil)
	return &collector.ExportTraceServiceResponse{}, nil
}

// ServeHTTP implements OTLP over HTTP.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "not an export of traces", http.StatusNotFound)
		return
	}
	var body io.Reader = r.Body
	var err error
	if r.Header.Get("Content-Encoding") == "gzip" {
		body, err = gzip.NewReader(r.Body)
	}
	var raw []byte
	if err == nil {
		raw, err = io.ReadAll(body)
	}
	var q collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(raw, &q)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.keep(&q, r.Header)
	answer, _ := proto.Marshal(&collector.ExportTraceServiceResponse{}) // an empty message
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(answer) // the exporter may have given up
}

func (c *Collector) keep(q *collector.ExportTraceServiceRequest, headers http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	c.headers = headers
	for _, r := range q.GetResourceSpans() {
		resource := valuesOf(r.GetResource().GetAttributes())
		for _, s := range r.GetScopeSpans() {
			for _, x := range s.GetSpans() {
				c.spans = append(c.spans, newSpan(x, resource))
			}
		}
	}
}

// Requests returns the number of requests, and the headers of the last one by HTTP.
func (c *Collector) Requests() (n int, last http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests, c.headers
}

// Spans returns the spans that were received.
func (c *Collector) Spans() Spans {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(Spans(nil), c.spans...)
}
