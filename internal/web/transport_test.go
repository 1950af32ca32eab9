package web

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
