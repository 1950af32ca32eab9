package verify

import (
	"crypto/ed25519"
	"crypto/rand"
	"testing"
)

// TestVerifiersTellWhichSecretMatched signs with the last of several secrets or keys.
func TestVerifiersTellWhichSecretMatched(t *testing.T) {
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		claim string
		c     Config
		keys  Keys
		key   string
		want  Match
	}{
		{"hmac", Config{Type: "hmac", Header: "X-Sig", Secrets: []string{"new", "old"}}, nil, "old", Match{2, 2}},
		{"hmac, the first", Config{Type: "hmac", Header: "X-Sig", Secrets: []string{"new", "old"}}, nil, "new", Match{1, 2}},
		{"a repeated secret counts once", Config{Type: "hmac", Header: "X-Sig", Secrets: []string{"new", "new", "old"}}, nil, "old", Match{2, 2}},
		{"timestamped_hmac", Config{Type: "timestamped_hmac", Header: "X-Sig", Secrets: []string{"new", "old"}}, nil, "old", Match{2, 2}},
		{"standard_webhooks", Config{Type: "standard_webhooks", SecretEncoding: "text", Secrets: []string{"new", "old"}}, nil, "old", Match{2, 2}},
		{"url_form_hmac", Config{Type: "url_form_hmac", Header: "X-Sig", Algorithm: "sha1", Encoding: "base64", Secrets: []string{"new", "old"}}, nil, "old", Match{2, 2}},
		{"api_key", Config{Type: "api_key", Header: "X-Key", Values: []string{"a", "b", "c"}}, nil, "c", Match{3, 3}},
		{"api_key in the query", Config{Type: "api_key", Query: "key", Values: []string{"a", "b"}}, nil, "b", Match{2, 2}},
		{"api_key in the body", Config{Type: "api_key", Path: "token", Values: []string{"a", "b"}}, nil, "b", Match{2, 2}},
		{"basic_auth", Config{Type: "basic_auth", Values: []string{"user:a", "user:b"}}, nil, "b", Match{2, 2}},
		{"jwt", Config{Type: "jwt", Header: "X-Token", Algorithm: "HS256", Secrets: []string{"new", "old"}}, nil, "old", Match{2, 2}},
		{"public_key", Config{Type: "public_key", Header: "X-Sig", Algorithm: "ed25519", PublicKeys: []string{publicText(other), publicText(pairs().ed)}},
			nil, "", Match{2, 2}},
		{"keys that are fetched", certificateConfig(), &fakeKeys{keys: parsed(t, publicText(pairs().rsa))}, "", Match{}},
		{"none", Config{Type: "none"}, nil, "", Match{}},
	} {
		t.Run(tt.claim, func(t *testing.T) {
			got, err := Identify(t.Context(), mustNewWith(t, tt.c, tt.keys), signedFor(t, tt.c, tt.key, 100))
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}
