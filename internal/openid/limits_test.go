package openid

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
)

func TestOnlyTheGatewayBeginsSignIns(t *testing.T) {
	b := newBrowser(t)
	b.begin()
	made, _, _ := strings.Cut(b.cookies[0].Value, ".")
	forged := base64.RawURLEncoding.EncodeToString([]byte(`{"State":"s","Nonce":"n","Verifier":"v","ExpiresAt":"2027-01-01T00:00:00Z"}`))
	_, signature, _ := strings.Cut(b.cookies[0].Value, ".")
	for claim, value := range map[string]string{"without a signature": forged, "with an empty signature": forged + ".", "with another signature": forged + "." + signature,
		"without its signature": made} {
		b.cookies[0].Value = value
		if _, _, err := b.finish(CallbackPath + "?code=x&state=s"); err == nil || eventhook.KindOf(err) != "" {
			t.Errorf("%s: error, got %v", claim, err)
		}
	}
	if b.at.calls > 0 {
		t.Errorf("requests to the token endpoint, got %d, want none", b.at.calls)
	}
}

func TestBegunSignInExpires(t *testing.T) {
	b := newBrowser(t)
	b.at.claims["groups"] = "platform"
	back := b.at.authorize(t, b.begin()).String()
	b.clock.Advance(signInTime)
	if _, _, err := b.finish(back); err == nil || !strings.Contains(err.Error(), "has expired") {
		t.Errorf("error, got %v", err)
	}
}

func TestFailedSignInsAreLimitedByAddress(t *testing.T) {
	b := newBrowser(t)
	b.at.claims["groups"] = "platform"
	for n := range 30 { // sign-ins that succeed are not limited
		if _, _, err := b.finish(b.at.authorize(t, b.begin()).String()); err != nil {
			t.Fatalf("sign-in %d: %v", n, err)
		}
	}
	b.at.calls = 0
	b.begin()
	state := b.at.authorize(t, b.begin()).Query().Get("state")
	var last error
	for range 60 {
		_, _, last = b.finish(CallbackPath + "?code=x&state=" + state)
	}
	limit, _ := errors.AsType[*eventhook.Error](last)
	if limit == nil || limit.Kind != eventhook.KindRateLimited || limit.RetryAfter <= 0 {
		t.Errorf("error, got %v, want KindRateLimited with RetryAfter", last)
	}
	if b.at.calls != 20 {
		t.Errorf("requests to the token endpoint, got %d for 60 callbacks, want 20", b.at.calls)
	}
	b.log.Reset()
	_, _, _ = b.finish(CallbackPath + "?error=" + strings.Repeat("x", 10_000) + "&state=" + state)
	if b.log.Len() > 0 {
		t.Errorf("the log beyond the limit, got %s", &b.log)
	}
	b.clock.Advance(time.Second)
	_, _, _ = b.finish(CallbackPath + "?error=" + strings.Repeat("x", 10_000) + "&state=" + state)
	if b.log.Len() == 0 || b.log.Len() > 1000 {
		t.Errorf("the log of a refusal, got %d bytes", b.log.Len())
	}
}

func TestGatewayAuthenticatesAsTheProviderWants(t *testing.T) {
	for method, isBasic := range map[string]bool{"": true, "client_secret_basic": true, "client_secret_post": false} {
		b := newBrowser(t)
		if method != "" {
			b.at.methods = []string{method}
		}
		b.at.claims["groups"] = "platform"
		hasBasic := false
		b.gateway.http.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/token" {
				_, _, hasBasic = r.BasicAuth()
			}
			return http.DefaultTransport.RoundTrip(r)
		})
		if _, _, err := b.finish(b.at.authorize(t, b.begin()).String()); err != nil || hasBasic != isBasic || b.at.calls != 1 {
			t.Errorf("%q: got %v, basic %t, %d requests", method, err, hasBasic, b.at.calls)
		}
	}
}

// roundTripper is the network of a provider that a test controls.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// silent is a provider that does not answer until it is released.
type silent struct {
	reads   int
	release chan error
}

func (s *silent) RoundTrip(r *http.Request) (*http.Response, error) {
	s.reads++
	select {
	case err := <-s.release:
		if err != nil {
			return nil, err
		}
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	w := httptest.NewRecorder()
	const text = `{"issuer":"https://login.example","authorization_endpoint":"https://login.example/authorize","token_endpoint":"https://login.example/token"}`
	_, _ = fmt.Fprint(w, text)
	return w.Result(), nil
}

// newSilent returns a gateway with a provider that does not answer, in the time of a synctest bubble,
// and a function that begins a sign-in.
func newSilent() (at *silent, begin func(context.Context) error) {
	c := DefaultConfig()
	c.Issuer, c.ClientID = "https://login.example", "gateway"
	gateway := New(c, Deps{Log: discard, Now: time.Now})
	at = &silent{release: make(chan error)}
	gateway.http.Transport = at
	return at, func(ctx context.Context) error {
		return gateway.Begin(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/console/openid", nil), "/console")
	}
}

func TestSilentProviderIsReadOnceForAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, begin := newSilent()
		started, results := time.Now(), make(chan error, 7)
		for range 6 {
			go func() { results <- begin(t.Context()) }()
		}
		ctx, leave := context.WithCancel(t.Context())
		go func() { results <- begin(ctx) }()
		synctest.Wait()
		leave()
		<-results
		if got := time.Since(started); got != 0 {
			t.Errorf("a browser that left waited %s", got)
		}
		for range 6 {
			if err := <-results; !errors.Is(err, errUnreachable) {
				t.Errorf("error, got %v", err)
			}
		}
		if got := time.Since(started); got != requestTimeout || at.reads != 1 {
			t.Errorf("got %d reads in %s, want 1 in %s", at.reads, got, requestTimeout)
		}
	})
}

func TestProviderThatIsDownIsReadLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, begin := newSilent()
		go func() { at.release <- errors.New("connection refused") }()
		if err := begin(t.Context()); !errors.Is(err, errUnreachable) {
			t.Errorf("error, got %v", err)
		}
		time.Sleep(failureMemory - time.Second)
		if err := begin(t.Context()); !errors.Is(err, errUnreachable) || at.reads != 1 {
			t.Errorf("soon after a failure: got %v and %d reads, want no second one", err, at.reads)
		}
		time.Sleep(time.Second)
		go func() { at.release <- nil }()
		for range 3 {
			if err := begin(t.Context()); err != nil {
				t.Errorf("after the provider is back: %v", err)
			}
		}
		if at.reads != 2 {
			t.Errorf("reads, got %d, want 2", at.reads)
		}
	})
}

var discard = slog.New(slog.DiscardHandler)
