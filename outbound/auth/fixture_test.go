package auth_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/egress"
	"github.com/eventhook/eventhook/outbound/auth"
	"github.com/eventhook/eventhook/outbound/send"
)

// hush is a part of every secret.
const hush = "hush-7f3a9c"

// clock is a time that a test moves.
type clock struct{ at time.Time }

func newClock() *clock { return &clock{time.Date(2026, 3, 10, 8, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time { return c.at }

// clients returns Clients over the gateway's client for foreign addresses.
func clients(policy egress.Policy, now func() time.Time) *auth.Clients {
	over := egress.New(policy)
	return auth.New(auth.Deps{Client: over, Now: now, WithCertificate: func(c tls.Certificate, authorities *x509.CertPool) auth.TLSClient {
		return over.WithCertificate(c, authorities)
	}})
}

func private() egress.Policy { return egress.Policy{AllowPrivate: true} }

// clientFor returns the client of a valid Auth.
func clientFor(t *testing.T, c *auth.Clients, a eventhook.Auth) send.Client {
	t.Helper()
	if faults := a.Validate(); len(faults) > 0 {
		t.Fatal(faults)
	}
	client, err := c.Client(a)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

const body = `{"amount":  1.50}`

// newRequest returns a request as the transports make it.
func newRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Webhook-Signature", "v1,abc")
	r.Header["Idempotency-Key"] = nil
	return r
}

// post sends a request and returns the status and the beginning of the answer.
func post(t *testing.T, c send.Client, url string) (status int, answer string, err error) {
	t.Helper()
	status, _, beginning, err := c.Exchange(t.Context(), newRequest(t, url), 100)
	if err != nil && strings.Contains(err.Error(), hush) {
		t.Errorf("the error shows a secret: %v", err)
	}
	return status, string(beginning), err
}

// newServer starts a server that fails the test if a request has another body.
func newServer(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(wholeBody(t, h))
	t.Cleanup(s.Close)
	return s
}

func wholeBody(t *testing.T, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		if string(got) != body || err != nil {
			t.Errorf("the receiver got the body %q, %v", got, err)
		}
		r.Body = io.NopCloser(bytes.NewReader(got))
		h(w, r)
	}
}

// clientFunc implements send.Client.
type clientFunc func(ctx context.Context, r *http.Request, maxBytes int) (int, http.Header, []byte, error)

func (f clientFunc) Exchange(ctx context.Context, r *http.Request, maxBytes int) (int, http.Header, []byte, error) {
	return f(ctx, r, maxBytes)
}
