package send_test

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// A faulty receiver costs limited time and memory, and its fault has an error class. The tests of
// internal/egress cover slow receivers.
func TestFaultsOfReceivers(t *testing.T) {
	cutResponse := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000000")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "half of")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	for _, c := range []struct {
		claim   string
		h       http.HandlerFunc
		status  int
		class   eventhook.ErrorClass
		excerpt string
	}{
		{"cuts a success response", cutResponse(200), 200, "", "half of"},
		{"cuts a failure response", cutResponse(500), 500, eventhook.ErrorHTTP5xx, "half of"},
		{"closes without a response", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, eventhook.ErrorClosed, ""},
		{"sends endless headers", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
		}, 0, eventhook.ErrorClosed, ""},
		{"redirects to a metadata service", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusTemporaryRedirect)
		}, 307, eventhook.ErrorHTTP, ""},
	} {
		s := newSink(t, c.h)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		a := newSender(time.Now).Send(t.Context(), sendingOf(newSubscription(s.URL), newEvent(), 1))
		if a.StatusCode != c.status || a.ErrorClass != c.class || a.Excerpt != c.excerpt || a.Succeeded() != (c.class == "") {
			t.Errorf("%s: got %+v, want %d, %q, %q", c.claim, a, c.status, c.class, c.excerpt)
		}
	}
}

func TestResponseOf100MB(t *testing.T) {
	var wrote atomic.Int64
	s := newSink(t, func(w http.ResponseWriter, _ *http.Request) {
		for piece := []byte(strings.Repeat("x", 1<<20)); wrote.Load() < 100<<20; {
			n, err := w.Write(piece)
			if wrote.Add(int64(n)); err != nil {
				return
			}
		}
	})
	a := newSender(time.Now).Send(t.Context(), sendingOf(newSubscription(s.URL), newEvent(), 1))
	if !a.Succeeded() || len(a.Excerpt) != eventhook.MaxExcerpt {
		t.Errorf("got %+v, want a success with an excerpt of the maximum length", a)
	}
	s.Close()
	if got := wrote.Load(); got > 50<<20 {
		t.Errorf("the client read %d bytes, want fewer", got)
	}
}

func TestUntrustedCertificate(t *testing.T) {
	s := httptest.NewUnstartedServer(answer(200, ""))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	s.StartTLS()
	defer s.Close()
	a := newSender(time.Now).Send(t.Context(), sendingOf(newSubscription(s.URL), newEvent(), 1))
	if want := "the certificate of " + strings.TrimPrefix(s.URL, "https://") + " is not trusted"; a.ErrorClass != eventhook.ErrorTLS || a.Error != want {
		t.Errorf("got %+v, want %s", a, want)
	}
}

// A receiver alternates between success and failure: each attempt has its own outcome.
func TestFlappingReceiver(t *testing.T) {
	var asked int
	s := newSink(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked%2 == 0 {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	sender, to := newSender(time.Now), newSubscription(s.URL)
	for i := range 10 {
		if a := sender.Send(t.Context(), sendingOf(to, newEvent(), 1)); a.Succeeded() != (i%2 == 0) {
			t.Errorf("attempt %d: got %+v", i+1, a)
		}
	}
	s.Close()
	if a := sender.Send(t.Context(), sendingOf(to, newEvent(), 1)); a.ErrorClass != eventhook.ErrorConnect {
		t.Errorf("after the receiver ended: got %+v, want a connection error", a)
	}
}
