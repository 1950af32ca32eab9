package verify

import (
	"net/http"
	"strings"
	"sync"
	"testing"
)

func mustNew(t testing.TB, c Config) Verifier {
	t.Helper()
	return mustNewWith(t, c, nil)
}

func mustNewWith(t testing.TB, c Config, keys Keys) Verifier {
	t.Helper()
	v, err := New(c, keys)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func signedRequest(secret, body string) *Request {
	return &Request{Header: http.Header{"X-Sig": {hexMAC(secret, body)}}, Body: []byte(body)}
}

func TestVerifierIsIndependentOfConfig(t *testing.T) {
	c := Config{Type: "hmac", Header: "X-Sig", AlsoHeaders: []string{"X-Other"}, Secrets: []string{"right"}}
	v := mustNew(t, c)
	c.Secrets[0], c.AlsoHeaders[0] = "changed", "X-Sig"
	if err := v.Verify(t.Context(), signedRequest("right", "body")); err != nil {
		t.Errorf("a change of the config reached the verifier: %v", err)
	}
	claims := Config{Type: "jwt", Algorithm: "HS256", Secrets: []string{"right"}, Issuers: []string{"a"}, Claims: map[string]string{"b": "c"}}
	v = mustNew(t, claims)
	r := signedFor(t, claims, "right", 0)
	r.Header.Set("Authorization", "Bearer "+r.Header.Get("Authorization"))
	claims.Issuers[0], claims.Claims["b"] = "changed", "changed"
	if err := v.Verify(t.Context(), r); err != nil {
		t.Errorf("a change of the claims reached the verifier: %v", err)
	}
	hosts := certificateConfig()
	keys := &fakeKeys{keys: parsed(t, publicText(pairs().rsa))}
	v = mustNewWith(t, hosts, keys)
	r = signedFor(t, hosts, "", 0)
	hosts.CertificateHosts[0] = "changed"
	if err := v.Verify(t.Context(), r); err != nil {
		t.Errorf("a change of the hosts reached the verifier: %v", err)
	}
}

func TestVerifiersDoNotModifyRequests(t *testing.T) {
	for _, p := range Presets() {
		c, v := presetVerifier(t, p, "secret")
		r := signedFor(t, c, "secret", 100)
		header, body := r.Header.Clone(), string(r.Body)
		method, url := r.Method, r.URL
		_ = v.Verify(t.Context(), r)
		if len(header) != len(r.Header) || body != string(r.Body) || method != r.Method || url != r.URL {
			t.Errorf("%s: the request became %v", p.ID, r)
		}
		for name := range header {
			if strings.Join(header[name], "\n") != strings.Join(r.Header[name], "\n") {
				t.Errorf("%s: header %s became %q", p.ID, name, r.Header[name])
			}
		}
	}
}

// TestEmptyKeyNeverMatches bypasses Validate, which refuses an empty value.
func TestEmptyKeyNeverMatches(t *testing.T) {
	for _, tt := range []struct {
		claim string
		c     Config
		r     *Request
	}{
		{"header", Config{Header: "X-Key"}, &Request{Header: http.Header{"X-Key": {""}}}},
		{"header behind a prefix", Config{Header: "X-Key", Prefix: "Bearer "}, &Request{Header: http.Header{"X-Key": {"Bearer "}}}},
		{"query", Config{Query: "token"}, &Request{URL: "https://h.example/?token="}},
		{"body", Config{Path: "token"}, &Request{Body: []byte(`{"token":""}`)}},
		{"body, null", Config{Path: "token"}, &Request{Body: []byte(`{"token":null}`)}},
	} {
		tt.c.Values = []string{""}
		if got := reasonOf(t, newAPIKey(tt.c).Verify(t.Context(), tt.r)); got != ReasonCredentials {
			t.Errorf("%s: empty key, empty value: got %q, want %q", tt.claim, got, ReasonCredentials)
		}
	}
}

// TestConcurrentUse uses each verifier concurrently for valid and forged requests of
// several lengths; run it with -race.
func TestConcurrentUse(t *testing.T) {
	for _, c := range []Config{
		{Type: "hmac", Header: "X-Sig", Secrets: []string{"new", "old"}},
		{Type: "hash", Header: "X-Sig", Secrets: []string{"new", "old"}},
		{Type: "timestamped_hmac", Header: "X-Sig", Secrets: []string{"new", "old"}},
		{Type: "standard_webhooks", Secrets: []string{"new", "old"}, SecretEncoding: "text"},
		{Type: "body_hmac", Path: "sig", Signed: "{field.a}", Secrets: []string{"new", "old"}},
		{Type: "url_form_hmac", Header: "X-Sig", Secrets: []string{"new", "old"}},
		{Type: "jwt", Header: "X-Token", Algorithm: "HS256", Secrets: []string{"new", "old"}},
		{Type: "api_key", Header: "X-Key", Values: []string{"new", "old"}},
	} {
		v := mustNew(t, c)
		var wg sync.WaitGroup
		for i := range 8 {
			good, forged := signedFor(t, c, "old", i*100), signedFor(t, c, "forged", i*100)
			wg.Go(func() {
				for range 50 {
					if err := v.Verify(t.Context(), good); err != nil {
						t.Errorf("%s: signed with the old secret: %v", c.Type, err)
					}
					if got := reasonOf(t, v.Verify(t.Context(), forged)); got != ReasonMismatch && got != ReasonCredentials {
						t.Errorf("%s: forged: got %q, want a mismatch", c.Type, got)
					}
				}
			})
		}
		wg.Wait()
	}
}

func TestRefusalText(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errAwaitingSecret, "key_not_found: " + errAwaitingSecret.Detail},
		{http.ErrNoCookie, http.ErrNoCookie.Error()},
	} {
		if got := RefusalText(tt.err); got != tt.want {
			t.Errorf("RefusalText(%v): got %q, want %q", tt.err, got, tt.want)
		}
	}
}
