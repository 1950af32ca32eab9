package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
)

// deliver sends a delivery to a sink.
func deliver(ctx context.Context, s http.Handler, path, id, body string) int {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("X-Eventhook-Delivery-Id", id)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code
}

func tallyOf(t *testing.T, s http.Handler) (got tally) {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestSinkCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSink()
		ids := []string{eventhook.NewID[eventhook.Delivery](time.Now()).String(), eventhook.NewID[eventhook.Delivery](time.Now()).String()}
		sent := func(ago time.Duration) string {
			if ago == 0 {
				return `{}`
			}
			return fmt.Sprintf(`{"event_id":"x","data":{"sent_at":%d,"n":1}}`, time.Now().Add(-ago).UnixNano())
		}
		began := time.Now()
		for _, c := range []struct {
			path, id string
			ago      time.Duration // since sending; 0: the body has no time
			want     int
		}{
			{"/0ms/one", ids[0], time.Millisecond, 204},
			{"/50ms/one", ids[1], 3 * time.Millisecond, 204},
			{"/0ms/other", ids[0], 2 * time.Millisecond, 204}, // a duplicate
			{"/0ms/bare", "", 0, 204},
			{"/soon/one", ids[1], 0, 404},
		} {
			if got := deliver(t.Context(), s, c.path, c.id, sent(c.ago)); got != c.want {
				t.Errorf("%s: answered %d, want %d", c.path, got, c.want)
			}
		}
		if took := time.Since(began); took != 50*time.Millisecond {
			t.Errorf("answered after %s, want 50ms", took)
		}
		want := tally{Requests: 4, Distinct: 2, Duplicates: 1, P50: 2 * time.Millisecond, P99: 3 * time.Millisecond, Timed: 3}
		if got := tallyOf(t, s); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodDelete, "/", nil))
		if got := tallyOf(t, s); got != (tally{}) {
			t.Errorf("after a reset: got %+v, want nothing", got)
		}
		if deliver(t.Context(), s, "/0ms/one", ids[0], ""); tallyOf(t, s).Distinct != 1 {
			t.Error("after a reset, an earlier delivery counts as a duplicate")
		}
	})
}

// A request of an http target may have an Idempotency-Key and no delivery id.
func TestSinkCountsIdempotencyKeys(t *testing.T) {
	s := newSink()
	for _, key := range []string{"event/route/0", "event/route/1", "event/route/0"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/0ms/target", strings.NewReader("{}"))
		r.Header.Set("Idempotency-Key", key)
		s.ServeHTTP(httptest.NewRecorder(), r)
	}
	if got, want := tallyOf(t, s), (tally{Requests: 3, Distinct: 2, Duplicates: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestSinkThatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSink()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		deliver(ctx, s, "/never/dead", "", "")
		if took := time.Since(began); took != time.Hour {
			t.Errorf("the request ended after %s, want the sender to end it after 1h", took)
		}
		if got := tallyOf(t, s); got != (tally{}) {
			t.Errorf("got %+v, want nothing counted", got)
		}
	})
}

func TestBareClientReachesTheSink(t *testing.T) {
	s := newSink()
	server := httptest.NewServer(s)
	defer server.Close()
	perSec, err := sendBareClient(t.Context(), server.URL+"/0ms/bare", 4, 50*time.Millisecond)
	if err != nil || perSec <= 0 || tallyOf(t, s).Requests == 0 {
		t.Errorf("got %f/s, %v, and %+v at the sink; want requests", perSec, err, tallyOf(t, s))
	}
	if _, err := sendBareClient(t.Context(), server.URL+"/soon/bare", 4, 50*time.Millisecond); err == nil {
		t.Error("answered 404: got no error, want one")
	}
}
