package web_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/eventhook/eventhook/internal/web"
)

// BenchmarkWriteHTML writes a page of the usual size.
func BenchmarkWriteHTML(b *testing.B) {
	page := bytes.Repeat([]byte(`<tr data-href="/console/t/acme/events/1"><td class="text">push</td></tr>`), 400)
	r := httptest.NewRequest(http.MethodGet, "/console", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	b.ReportAllocs()
	for b.Loop() {
		web.WriteHTML(httptest.NewRecorder(), r, http.StatusOK, page)
	}
}
