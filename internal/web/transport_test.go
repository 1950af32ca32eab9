package web

import (
	"bytes"
	"errors"
	"html/template"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// respond returns the response of a handler that writes parts of 1 MiB.
func respond(t *testing.T, status, parts int, copyTo func(http.Header) io.Writer) (*http.Response, string) {
	t.Helper()
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(status)
		for range parts {
			if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
				t.Error(err)
			}
		}
	})
	calls := http.Client{Transport: Transport{Handler: handler, Request: httptest.NewRequest(http.MethodGet, "/", nil), CopyTo: copyTo}}
	response, err := calls.Get("http://localhost/")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func TestResponseInMemoryIsBounded(t *testing.T) {
	if response, body := respond(t, http.StatusOK, 32, nil); response.StatusCode != http.StatusOK || len(body) != maxResponse {
		t.Errorf("the largest response, got %d with %d bytes", response.StatusCode, len(body))
	}
	response, body := respond(t, http.StatusOK, 33, nil)
	if response.StatusCode != http.StatusInternalServerError || !strings.Contains(body, "too large for a page") || len(body) > 200 {
		t.Errorf("a larger response, got %d with %d bytes, want a problem", response.StatusCode, len(body))
	}
	if got := response.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type, got %s", got)
	}
}

func TestResponseIsCopiedAsItIsWritten(t *testing.T) {
	for _, parts := range []int{0, 1, 40} {
		var copied bytes.Buffer
		header := ""
		_, body := respond(t, http.StatusOK, parts, func(h http.Header) io.Writer { header = h.Get("Content-Type"); return &copied })
		if copied.Len() != parts<<20 || body != "" || header != "text/plain" {
			t.Errorf("%d MiB: got %d bytes copied and %d kept, for the type %q", parts, copied.Len(), len(body), header)
		}
	}
	_, body := respond(t, http.StatusNotFound, 1, func(http.Header) io.Writer { t.Error("an error is copied"); return io.Discard })
	if len(body) != 1<<20 {
		t.Errorf("error, got %d bytes", len(body))
	}
}

func TestPageIsBounded(t *testing.T) {
	set := template.Must(template.New("layout").Parse("{{range .}}" + strings.Repeat("x", 1024) + "{{end}}"))
	if page, err := Execute(set, make([]int, maxPage>>10)); err != nil || len(page) != maxPage {
		t.Errorf("the largest page, got %d bytes and %v", len(page), err)
	}
	if page, err := Execute(set, make([]int, maxPage>>10+1)); !errors.Is(err, ErrPageTooLarge) || page != nil {
		t.Errorf("a larger page, got %d bytes and %v", len(page), err)
	}
}

func TestTransportCarriesTheClientOfTheBrowser(t *testing.T) {
	browser := httptest.NewRequest(http.MethodGet, "https://hooks.example/console", nil)
	browser.RemoteAddr = "198.51.100.7:4000"
	want := http.Header{"X-Forwarded-For": {"203.0.113.1", "203.0.113.2"}, "Forwarded": {"for=203.0.113.3"}, "X-Real-Ip": {"203.0.113.4"},
		"X-Request-Id": {"req-1"}, "Traceparent": {"00-1-2-01"}, "Tracestate": {"a=b"}}
	for name, values := range want {
		browser.Header[name] = values
	}
	browser.Header.Set("Cookie", "eventhook_console=x")
	browser.Header.Set("Authorization", "Bearer x")
	var got *http.Request
	api := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r })
	call := httptest.NewRequest(http.MethodPost, "http://localhost/api/identity", nil)
	answer, err := Transport{Handler: api, Request: browser}.RoundTrip(call)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if got.RemoteAddr != browser.RemoteAddr || got.TLS != browser.TLS {
		t.Errorf("peer, got %s with TLS %v, want that of the browser", got.RemoteAddr, got.TLS)
	}
	if diff := cmp.Diff(want, got.Header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}
