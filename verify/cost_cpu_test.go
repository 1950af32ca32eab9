package verify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// keySetOn returns a JWK Set of new keys on a curve.
func keySetOn(t testing.TB, curve elliptic.Curve, n int) string {
	t.Helper()
	var set jose.JSONWebKeySet
	for i := range n {
		private, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: &private.PublicKey, KeyID: fmt.Sprint(i)})
	}
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// countedKeys counts the public-key operations of a verifier and their units.
func countedKeys(v Verifier) (operations, units *int) {
	operations, units = new(int), new(int)
	count := func(k crypto.PublicKey) {
		*operations++
		*units += keyWork(k)
	}
	switch v := v.(type) {
	case *signatureVerifier:
		checker := v.checker.(*keyChecker)
		verify := checker.verify
		checker.verify = func(key crypto.PublicKey, message, digest, signature []byte) bool {
			count(key)
			return verify(key, message, digest, signature)
		}
	case *jwtVerifier:
		check := v.check
		v.check = func(signed *jose.JSONWebSignature, key crypto.PublicKey) ([]byte, error) {
			count(key)
			return check(signed, key)
		}
	case *snsVerifier:
		check := v.check
		v.check = func(a algorithm, key crypto.PublicKey, message, digest, signature []byte) bool {
			count(key)
			return check(a, key, message, digest, signature)
		}
	}
	return operations, units
}

// The attack: 16 documents with 100 keys each, and four signatures in one request.
func TestPublicKeyOperationsAreBounded(t *testing.T) {
	p256, p384, p521 := keySetOn(t, elliptic.P256(), 30), keySetOn(t, elliptic.P384(), 30), keySetOn(t, elliptic.P521(), 30)
	signature := func(curve elliptic.Curve) string {
		private, _ := ecdsa.GenerateKey(curve, rand.Reader)
		digest := make([]byte, 32)
		raw, err := ecdsa.SignASN1(rand.Reader, private, digest)
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(raw)
	}
	for _, c := range []struct {
		claim      string
		keys       []string
		signatures int
		want       int // operations
	}{
		{"one key, one signature", []string{keySetOn(t, elliptic.P521(), 1)}, 1, 1},
		{"P-256: 20 keys, 4 signatures", []string{p256}, 10, 80},
		{"P-384", []string{p384, p521}, 10, 20},
		{"P-521", []string{p521, p384}, 10, 4},
		{"the same keys again", []string{keySetOn(t, elliptic.P256(), 1)}, 1, 1},
	} {
		if c.claim == "the same keys again" {
			c.keys = slicesOf(c.keys[0], 16)
		}
		v := mustNew(t, Config{Type: "public_key", Header: "X-Sig", Encoding: "base64", Algorithm: "ecdsa_sha256", PublicKeys: c.keys})
		operations, units := countedKeys(v)
		sent := make([]string, c.signatures)
		for i := range sent {
			sent[i] = signature(elliptic.P521())
		}
		r := &Request{Method: http.MethodPost, Header: http.Header{"X-Sig": {strings.Join(sent, ",")}}, Body: []byte("{}")}
		if got := reasonOf(t, v.Verify(t.Context(), r)); got != ReasonMismatch {
			t.Errorf("%s: got %q, want %q", c.claim, got, ReasonMismatch)
		}
		if *operations != c.want || *units > maxKeyWork {
			t.Errorf("%s: %d operations of %d units, want %d operations of at most %d units", c.claim, *operations, *units, c.want, maxKeyWork)
		}
		if foreseen := v.CPUCost(r); foreseen < *units {
			t.Errorf("%s: CPUCost returned %d units, but Verify used %d", c.claim, foreseen, *units)
		}
	}
}

func slicesOf(s string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = s
	}
	return all
}

func TestKeysOfTokenAreBounded(t *testing.T) {
	set := keySetOn(t, elliptic.P521(), 90)
	private, _ := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	for _, c := range []struct {
		claim, id string
		keys      Keys
		static    []string
		want      int
	}{
		{"the id of a fetched key", "7", &fakeKeys{keys: parsed(t, set)}, nil, 1},
		{"no id", "", &fakeKeys{keys: parsed(t, set)}, nil, 4},
		{"no id, with configured keys", "", nil, []string{set}, 4},
		{"an unknown id", "x", &fakeKeys{keys: parsed(t, set)}, nil, 0},
	} {
		options := (&jose.SignerOptions{}).WithType("JWT")
		if c.id != "" {
			options = options.WithHeader("kid", c.id)
		}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES512, Key: private}, options)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := signer.Sign([]byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		token, _ := signed.CompactSerialize()
		config := Config{Type: "jwt", Header: "X-Token", Algorithm: "ES512", PublicKeys: c.static}
		if c.static == nil {
			config.KeySetURL = "https://keys.example/jwks"
		}
		v := mustNewWith(t, config, c.keys)
		operations, _ := countedKeys(v)
		_ = v.Verify(t.Context(), &Request{Header: http.Header{"X-Token": {token}}})
		if *operations != c.want {
			t.Errorf("%s: %d operations, want %d", c.claim, *operations, c.want)
		}
	}
}

func TestKeysOfSNSAreBounded(t *testing.T) {
	var many []Key
	for range 100 {
		many = append(many, parsed(t, publicText(pairs().rsa))...)
		many[len(many)-1].Public = &rsa.PublicKey{N: pairs().rsa.N, E: 65539} // another key
	}
	c := Config{Type: "aws_sns"}
	v := mustNewWith(t, c, &fakeKeys{keys: many})
	_, units := countedKeys(v)
	if got := reasonOf(t, v.Verify(t.Context(), signedFor(t, c, "", 100))); got != ReasonMismatch {
		t.Errorf("got %q, want %q", got, ReasonMismatch)
	}
	if *units == 0 || *units > maxKeyWork {
		t.Errorf("%d units, want at most %d", *units, maxKeyWork)
	}
}

// The attack: a template with 20 000 fields.
func TestBodyIsScannedOnceForAllFields(t *testing.T) {
	for _, c := range []struct {
		claim  string
		signed string
		depth  int
	}{
		{"one field", "{field.a}", 1},
		{"20 000 fields", fieldsOf(20_000, ""), 1},
		{"20 000 alternatives", "{field." + strings.TrimSuffix(strings.Repeat("x|", 20_000), "|") + "}", 1},
		{"deeply nested fields", fieldsOf(200, strings.Repeat("a.", 100)), 100},
	} {
		m, wrong := parseMessage(c.signed)
		if wrong != "" {
			t.Fatalf("%s: the template %s", c.claim, wrong)
		}
		set := newFieldSet()
		m.locate(set)
		body := strings.Repeat(`{"a":`, c.depth) + `{"b":"` + strings.Repeat("x", 100_000) + `"}` + strings.Repeat("}", c.depth)
		counter := fieldScan{text: body, found: make([]foundField, set.nodes)}
		counter.value(set.root)
		if counter.at != len(body) {
			t.Errorf("%s: the pass ended at %d, want %d", c.claim, counter.at, len(body))
		}
	}
}

// With one pass per field, this test would time out.
func TestManyFieldsOfLargeBody(t *testing.T) {
	v := mustNew(t, Config{Type: "body_hmac", Path: "sig", Signed: fieldsOf(20_000, ""), Secrets: []string{"secret"}})
	body := `{"sig":"` + strings.Repeat("0", 64) + `"` + strings.Repeat(`,"x":[{"y":"zzzzzzzzzzzzzzz"}]`, 30_000) + `}`
	r := &Request{Method: http.MethodPost, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body)}
	if got := reasonOf(t, v.Verify(t.Context(), r)); got != ReasonMismatch {
		t.Errorf("got %q, want %q", got, ReasonMismatch)
	}
}

func fieldsOf(n int, above string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{field.%sf%d}", above, i)
	}
	return b.String()
}

// A template that repeats a placeholder cannot expand a body to a large message.
func TestSignedTextIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, template := range []string{
		strings.Repeat("{field.a}", 1000), strings.Repeat("{url}", 1000), strings.Repeat("{headers.X-List}", 1000), strings.Repeat("{url_decoded}", 1000),
	} {
		m, _ := parseMessage(template)
		set, w := newFieldSet(), &workspace{}
		m.locate(set)
		r := &Request{URL: "https://h.example/" + long[:100_000], Body: []byte(`{"a":"` + long + `"}`),
			Header: http.Header{"X-List": {"x-list,x-a"}, "X-A": {long[:100_000]}}}
		w.found = set.scan(nil, string(r.Body))
		err := m.compose(w, r, "")
		if err != errSignedLarge || len(w.before) > 2*len(r.Body)+2*maxExtraSigned {
			t.Errorf("%.20s…: got %v and %d bytes, want %v", template, err, len(w.before), errSignedLarge)
		}
	}
}

func TestRepeatedSecretsAreUsedOnce(t *testing.T) {
	c := Config{Type: "hmac", Header: "X-Sig", Secrets: slicesOf("secret", 16)}
	v := mustNew(t, c)
	if n := len(v.(*signatureVerifier).checker.(*macChecker).keys); n != 1 {
		t.Errorf("%d keys, want 1", n)
	}
	if err := v.Verify(t.Context(), signedFor(t, c, "secret", 10)); err != nil {
		t.Error(err)
	}
}

// Cheap schemes cost 0 units, so that their requests are verified without a budget.
func TestCPUCost(t *testing.T) {
	for _, p := range Presets() {
		c, v := presetVerifier(t, p, "secret")
		r := signedFor(t, c, "secret", bodySize)
		isCheap := map[string]bool{"hmac": true, "timestamped_hmac": true, "standard_webhooks": true, "api_key": true, "basic_auth": true,
			"hash": true, "body_hmac": true, "url_form_hmac": true}[c.Type] || c.Type == "jwt" && strings.HasPrefix(c.Algorithm, "HS")
		if got := v.CPUCost(r); (got == 0) != isCheap {
			t.Errorf("%s, %s: %d units for an ordinary body, want none: %t", p.ID, p.Scheme, got, isCheap)
		}
		large := *r
		large.Body = make([]byte, 8<<20)
		if got := v.CPUCost(&large); got > 8<<20/parsedUnit*4 || got < v.CPUCost(r) {
			t.Errorf("%s, %s: %d units for 8 MiB", p.ID, p.Scheme, got)
		}
	}
}
