package console_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/console"
)

const streamPath = "/console/t/acme/stream"

func TestStreamNeedsASession(t *testing.T) {
	f := newFixture(t)
	f.cookie = nil
	f.get(streamPath).is(http.StatusUnauthorized)
	f = newFixture(t)
	f.cookie.Value = "x"
	f.get(streamPath).is(http.StatusUnauthorized)
	f = newFixture(t)
	f.get("/console/t/acme%2Feventhook%2Fin%2Fopen/stream").is(http.StatusNotFound)
	f.get("/console/t/%2e%2e/stream").is(http.StatusNotFound)
	if len(f.api.calls) > 0 {
		t.Errorf("calls, got %v, want none", f.api.calls)
	}
}

func TestStreamHasTheSessionAndTheFiltersOfThePage(t *testing.T) {
	f := newFixture(t)
	var in *http.Request
	f.answer("GET "+T+"/events/stream", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { in = r }))
	r := f.request(http.MethodGet, streamPath+"?status=dead&after=x&heartbeat_seconds=60", nil)
	r.Header.Set("Authorization", "Bearer ehk_other")
	f.do(r).is(http.StatusOK)
	s, ok := api.SessionOf(in.Context())
	if !ok || len(s.KeyHash) == 0 || s.Via != "console" || in.Header.Get("Authorization") != "" || in.RemoteAddr != r.RemoteAddr {
		t.Errorf("request, got %+v with the session %+v", in, s)
	}
	if got := in.URL.RawQuery; got != "heartbeat_seconds=1&status=dead" {
		t.Errorf("query, got %q", got)
	}
}

func TestStreamEndsAtOnceWithTheSignOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.config.API = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		f.console = console.New(f.config)
		hasEnded := false
		go func() {
			f.console.ServeHTTP(httptest.NewRecorder(), f.request(http.MethodGet, streamPath, nil))
			hasEnded = true
		}()
		synctest.Wait()
		if hasEnded {
			t.Fatal("the stream ended at once")
		}
		f.post("/console/sign-out", nil).redirects("/console/sign-in")
		synctest.Wait()
		if !hasEnded {
			t.Error("the stream goes on after the sign-out")
		}
	})
}

func TestStreamEndsWithTheBrowser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.answer("GET "+T+"/events/stream", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		ctx, leave := context.WithCancel(t.Context())
		go f.console.ServeHTTP(httptest.NewRecorder(), f.request(http.MethodGet, streamPath, nil).WithContext(ctx))
		synctest.Wait()
		leave() // the bubble ends only if every goroutine of the stream does
	})
}
