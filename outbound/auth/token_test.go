package auth_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/egress"
	"github.com/eventhook/eventhook/outbound/auth"
)

// tokenServer is an authorization server with a resource that takes its tokens: it issues,
// expires and revokes them.
type tokenServer struct {
	now      func() time.Time
	lifetime time.Duration
	inBody   bool // the client's credentials must be in the body

	mu     sync.Mutex
	issued int
	valid  map[string]time.Time // until when
	scopes []string             // of the requests
	posts  int                  // to the resource
}

func newTokenServer(t *testing.T, now func() time.Time) (s *tokenServer, address string) {
	t.Helper()
	s = &tokenServer{now: now, lifetime: time.Hour, valid: map[string]time.Time{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", s.issue)
	mux.HandleFunc("POST /hook", wholeBody(t, s.receive))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return s, server.URL
}

func (s *tokenServer) issue(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, secret, _ := r.BasicAuth()
	if s.inBody {
		id, secret = r.FormValue("client_id"), r.FormValue("client_secret")
	}
	w.Header().Set("Content-Type", "application/json")
	if secret, _ = url.QueryUnescape(secret); id != "gateway" || secret != hush+"/&=" || r.FormValue("grant_type") != "client_credentials" {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"error":"invalid_client","error_description":"unknown secret %s"}`, secret)
		return
	}
	s.issued++
	token := fmt.Sprintf("%s-token-%d", hush, s.issued)
	s.valid[token] = s.now().Add(s.lifetime)
	s.scopes = append(s.scopes, r.FormValue("scope"))
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": token, "token_type": "bearer", "expires_in": int(s.lifetime / time.Second)})
}

func (s *tokenServer) receive(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posts++
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if until, isValid := s.valid[token]; !isValid || !s.now().Before(until) {
		w.WriteHeader(http.StatusUnauthorized)
	}
	_, _ = io.WriteString(w, "got "+token)
}

func (s *tokenServer) revokeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.valid)
}

// want compares the numbers of token requests and of requests to the resource.
func (s *tokenServer) want(t *testing.T, claim string, issued, posts int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.issued != issued || s.posts != posts {
		t.Errorf("%s: %d tokens and %d requests, want %d and %d", claim, s.issued, s.posts, issued, posts)
	}
}

func credentials(url string) eventhook.Auth {
	return eventhook.Auth{Type: eventhook.AuthOAuth2, TokenURL: url + "/token", ClientID: "gateway", ClientSecret: hush + "/&=", Scopes: []string{"read", "write:all"}}
}

func TestATokenIsUsedUntilShortlyBeforeItsEnd(t *testing.T) {
	at := newClock()
	server, url := newTokenServer(t, at.now)
	c := clientFor(t, clients(private(), at.now), credentials(url))
	send := func() {
		t.Helper()
		if status, answer, err := post(t, c, url+"/hook"); status != 200 || strings.Contains(answer, hush) || err != nil {
			t.Errorf("got %d, %q, %v; want 200 without the token", status, answer, err)
		}
	}
	send()
	send()
	server.want(t, "two deliveries", 1, 2)
	if server.scopes[0] != "read write:all" {
		t.Errorf("the scopes are %q", server.scopes[0])
	}
	at.at = at.at.Add(59*time.Minute - time.Second)
	send()
	server.want(t, "before the margin", 1, 3)
	at.at = at.at.Add(time.Second)
	send()
	server.want(t, "a minute before its end", 2, 4)
	server.lifetime = 10 * time.Second
	at.at = at.at.Add(time.Hour)
	send()
	at.at = at.at.Add(7 * time.Second)
	send()
	server.want(t, "a short token", 3, 6)
	at.at = at.at.Add(time.Second)
	send()
	server.want(t, "a fifth before the end of a short token", 4, 7)
}

func TestARevokedTokenIsRenewedOnce(t *testing.T) {
	at := newClock()
	server, url := newTokenServer(t, at.now)
	c := clientFor(t, clients(private(), at.now), credentials(url))
	if status, _, err := post(t, c, url+"/hook"); status != 200 || err != nil {
		t.Fatalf("got %d, %v", status, err)
	}
	server.revokeAll()
	if status, _, err := post(t, c, url+"/hook"); status != 200 || err != nil {
		t.Errorf("after the revocation: got %d, %v; want 200", status, err)
	}
	server.want(t, "a revoked token", 2, 3)
	server.lifetime = -time.Hour // issued, and never accepted; expires_in below 1 means no end
	server.revokeAll()
	if status, _, err := post(t, c, url+"/hook"); status != http.StatusUnauthorized || err != nil {
		t.Errorf("no token is accepted: got %d, %v; want 401", status, err)
	}
	server.want(t, "no token is accepted", 3, 5)
}

func TestCredentialsInTheBody(t *testing.T) {
	at := newClock()
	server, url := newTokenServer(t, at.now)
	server.inBody = true
	c := clientFor(t, clients(private(), at.now), credentials(url))
	if status, _, err := post(t, c, url+"/hook"); status != 200 || err != nil {
		t.Errorf("got %d, %v; want 200", status, err)
	}
}

func TestEqualCredentialsShareTokensAndOthersDoNot(t *testing.T) {
	at := newClock()
	server, url := newTokenServer(t, at.now)
	all := clients(private(), at.now)
	narrow := credentials(url)
	narrow.Scopes = nil
	for _, a := range []eventhook.Auth{credentials(url), credentials(url), narrow} {
		if status, _, err := post(t, clientFor(t, all, a), url+"/hook"); status != 200 || err != nil {
			t.Errorf("got %d, %v; want 200", status, err)
		}
	}
	server.want(t, "two equal ones and one with other scopes", 2, 3)
}

// gate is a send.Client whose token requests wait until it is opened.
func gate(open <-chan struct{}, requests *int, answer string) clientFunc {
	return func(ctx context.Context, r *http.Request, _ int) (int, http.Header, []byte, error) {
		if r.URL.Path != "/token" {
			return http.StatusOK, http.Header{}, []byte(r.Header.Get("Authorization")), nil
		}
		*requests++
		select {
		case <-open:
			return http.StatusOK, http.Header{"Content-Type": {"application/json"}}, []byte(answer), nil
		case <-ctx.Done():
			return 0, nil, nil, ctx.Err()
		}
	}
}

func TestConcurrentDeliveriesShareOneTokenRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, requests := make(chan struct{}), 0
		over := gate(open, &requests, `{"access_token":"t0ken"}`)
		c := clientFor(t, auth.New(auth.Deps{Client: over, Now: time.Now}), credentials("https://login.example"))
		var senders sync.WaitGroup
		for range 20 {
			senders.Go(func() {
				if status, _, err := post(t, c, "https://a.example/hook"); status != 200 || err != nil {
					t.Errorf("got %d, %v", status, err)
				}
			})
		}
		synctest.Wait()
		close(open)
		senders.Wait()
		if requests != 1 {
			t.Errorf("%d token requests, want 1", requests)
		}
	})
}

// One delivery must not wait for a token endpoint that hangs longer than its own timeout, and
// must not end the request for the others.
func TestAHangingTokenEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		c := clientFor(t, auth.New(auth.Deps{Client: gate(nil, &requests, ""), Now: time.Now}), credentials("https://login.example"))
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var senders sync.WaitGroup
		senders.Go(func() {
			_, _, _, err := c.Exchange(ctx, newRequest(t, "https://a.example/hook"), 10)
			wantFailure(t, "an impatient delivery", err, eventhook.ErrorTimeout, "no OAuth 2 token: login.example did not answer in time")
			if took := time.Since(began); took != time.Second {
				t.Errorf("took %s", took)
			}
		})
		_, _, err := post(t, c, "https://a.example/hook")
		wantFailure(t, "a patient delivery", err, eventhook.ErrorTimeout, "no OAuth 2 token: login.example did not answer in time")
		if took, limit := time.Since(began), 10*time.Second; took > limit {
			t.Errorf("took %s, want at most %s", took, limit)
		}
		senders.Wait()
	})
}

func wantFailure(t *testing.T, claim string, err error, class eventhook.ErrorClass, text string) {
	t.Helper()
	classed, ok := err.(interface{ Class() string })
	if !ok || classed.Class() != string(class) || err.Error() != text {
		t.Errorf("%s: got %v, want %s: %s", claim, err, class, text)
	}
}

func TestFailedTokenRequests(t *testing.T) {
	for _, c := range []struct {
		claim, answer string
		status        int
		class         eventhook.ErrorClass
		want          string
	}{
		{"a refused client", `{"error":"invalid_client","error_description":"` + hush + `"}`, 401, eventhook.ErrorHTTP4xx, "HOST answered 401 Unauthorized (invalid_client)"},
		{"an unknown code", `{"error":"` + hush + `"}`, 400, eventhook.ErrorHTTP4xx, "HOST answered 400 Bad Request"},
		{"an outage", hush, 503, eventhook.ErrorHTTP5xx, "HOST answered 503 Service Unavailable"},
		{"a redirect", hush, 302, eventhook.ErrorHTTP, "HOST answered 302 Found; redirects are not followed"},
		{"no JSON", hush, 200, eventhook.ErrorHTTP, "the answer of HOST has none"},
		{"no token", `{"token":"` + hush + `"}`, 200, eventhook.ErrorHTTP, "the answer of HOST has none"},
		{"a token of two lines", `{"access_token":"` + hush + `\r\nX: y"}`, 200, eventhook.ErrorHTTP, "HOST answered with a token that cannot be sent in a header"},
		{"a large token", `{"access_token":"` + strings.Repeat("x", 5000) + `"}`, 200, eventhook.ErrorHTTP, "HOST answered with a token that cannot be sent in a header"},
		{"an endless answer", `{"access_token":"` + strings.Repeat("x", 100<<10) + `"}`, 200, eventhook.ErrorHTTP, "the answer of HOST has none"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.answer)
			}))
			defer server.Close()
			host := strings.TrimPrefix(server.URL, "http://")
			_, _, err := post(t, clientFor(t, clients(private(), time.Now), credentials(server.URL)), "https://never.invalid/")
			wantFailure(t, c.claim, err, c.class, "no OAuth 2 token: "+strings.ReplaceAll(c.want, "HOST", host))
		})
	}
}

func TestTheAddressPolicyHoldsForTokenEndpoints(t *testing.T) {
	server, url := newTokenServer(t, time.Now)
	_, _, err := post(t, clientFor(t, clients(egress.Policy{}, time.Now), credentials(url)), url+"/hook")
	classed, ok := err.(interface{ Class() string })
	if !ok || classed.Class() != string(eventhook.ErrorBlocked) {
		t.Errorf("got %v, want a blocked request", err)
	}
	server.want(t, "a private address", 0, 0)
}

// Many deliveries get a 401 for the same token, one after another. They share the next one.
func TestALate401DoesNotDropTheNextToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, issued := make(chan struct{}), 0
		over := clientFunc(func(_ context.Context, r *http.Request, _ int) (int, http.Header, []byte, error) {
			switch {
			case r.URL.Path == "/token":
				issued++
				return http.StatusOK, http.Header{"Content-Type": {"application/json"}}, fmt.Appendf(nil, `{"access_token":"t%d"}`, issued), nil
			case r.Header.Get("Authorization") != "Bearer t1":
				return http.StatusOK, nil, nil, nil
			case r.URL.Path == "/slow":
				<-slow
			}
			return http.StatusUnauthorized, nil, nil, nil
		})
		c := clientFor(t, auth.New(auth.Deps{Client: over, Now: time.Now}), credentials("https://login.example"))
		var late sync.WaitGroup
		late.Go(func() {
			if status, _, err := post(t, c, "https://a.example/slow"); status != 200 || err != nil {
				t.Errorf("got %d, %v; want 200", status, err)
			}
		})
		synctest.Wait()
		if status, _, err := post(t, c, "https://a.example/fast"); status != 200 || err != nil {
			t.Errorf("got %d, %v; want 200", status, err)
		}
		close(slow)
		late.Wait()
		if issued != 2 {
			t.Errorf("%d tokens, want 2", issued)
		}
	})
}
