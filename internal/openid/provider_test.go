package openid

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// today is the time of every test.
var today = time.Date(2026, 1, 31, 14, 0, 0, 0, time.UTC)

// fakeProvider is an OpenID provider. It gives out one code per authorization request and exchanges
// it once, for the PKCE verifier that fits.
type fakeProvider struct {
	*httptest.Server
	key       *ecdsa.PrivateKey
	signWith  *ecdsa.PrivateKey
	claims    map[string]any                     // added to the standard claims of the next token
	sign      func(claims map[string]any) string // nil: with signWith
	methods   []string                           // token_endpoint_auth_methods_supported; nil: not told
	calls     int                                // of the token endpoint
	challenge map[string]string                  // PKCE challenge by code
	nonce     map[string]string                  // by code
}

func newFakeProvider(t *testing.T) *fakeProvider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &fakeProvider{key: key, signWith: key, claims: map[string]any{}, challenge: map[string]string{}, nonce: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		about := map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token",
			"jwks_uri": p.URL + "/keys", "id_token_signing_alg_values_supported": []string{"ES256"}}
		if p.methods != nil {
			about["token_endpoint_auth_methods_supported"] = p.methods
		}
		writeJSON(w, about)
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "k1", Algorithm: "ES256", Use: "sig"}}})
	})
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// authorize is the person's consent at the provider. It returns the URL to which the provider
// redirects, for the URL to which the gateway redirected.
func (p *fakeProvider) authorize(t *testing.T, request string) *url.URL {
	t.Helper()
	u, err := url.Parse(request)
	if err != nil {
		t.Fatal(err)
	}
	q, code := u.Query(), rand.Text()
	if q.Get("code_challenge_method") != "S256" || q.Get("client_id") != "gateway" || q.Get("response_type") != "code" {
		t.Fatalf("authorization request, got %s", request)
	}
	p.challenge[code], p.nonce[code] = q.Get("code_challenge"), q.Get("nonce")
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil {
		t.Fatal(err)
	}
	back.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}}.Encode()
	return back
}

func (p *fakeProvider) token(w http.ResponseWriter, r *http.Request) {
	p.calls++
	code := r.PostFormValue("code")
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	id, secret, isBasic := r.BasicAuth()
	if !isBasic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	isValid := p.challenge[code] != "" && base64.RawURLEncoding.EncodeToString(sum[:]) == p.challenge[code] && id == "gateway" && secret == "client-secret"
	delete(p.challenge, code)
	if !isValid {
		w.WriteHeader(http.StatusBadRequest)
		writeJSON(w, map[string]string{"error": "invalid_grant", "error_description": "planted-secret"})
		return
	}
	claims := map[string]any{"iss": p.URL, "aud": "gateway", "sub": "u-1", "nonce": p.nonce[code], "iat": today.Unix(), "exp": today.Add(time.Minute).Unix()}
	for name, value := range p.claims {
		claims[name] = value
	}
	for name, value := range claims {
		if value == nil {
			delete(claims, name)
		}
	}
	sign := p.sign
	if sign == nil {
		sign = func(claims map[string]any) string {
			return signed(jose.ES256, jose.JSONWebKey{Key: p.signWith, KeyID: "k1"}, claims)
		}
	}
	raw := sign(claims)
	writeJSON(w, map[string]any{"access_token": "a", "token_type": "Bearer", "expires_in": 60, "id_token": raw})
}

func signed(algorithm jose.SignatureAlgorithm, key any, claims map[string]any) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, nil)
	if err != nil {
		panic(err)
	}
	raw, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		panic(err)
	}
	return raw
}

// unsigned returns a token with the algorithm none (RFC 7519, section 6).
func unsigned(claims map[string]any) string {
	raw, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"k1"}`)) + "." + base64.RawURLEncoding.EncodeToString(raw) + "."
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
