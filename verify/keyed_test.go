package verify

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// fakeKeys returns keys or an error, and records the requested URLs and ids. It
// returns when ctx ends, like every Keys.
type fakeKeys struct {
	keys      []Key
	err       error
	requested []string
}

func (f *fakeKeys) Keys(ctx context.Context, url, id string) ([]Key, error) {
	f.requested = append(f.requested, url+" "+id)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return f.keys, f.err
}

func parsed(t testing.TB, text string) []Key {
	t.Helper()
	keys, err := ParseKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// certificateText returns a certificate of pairs().rsa that is valid for an hour
// around signedAt.
func certificateText(t testing.TB) string {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "webhooks"},
		NotBefore: time.Unix(signedAt-1800, 0), NotAfter: time.Unix(signedAt+1800, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, pairs().rsa.Public(), pairs().rsa)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func certificateConfig() Config {
	return Config{Type: "public_key", Header: "X-Sig", Encoding: "base64", Algorithm: "rsa_sha256",
		CertificateHeader: "X-Cert", CertificateHosts: []string{"*.keys.example"}}
}

func keySetConfig() Config {
	return Config{Type: "jwt", Header: "X-Token", Algorithm: "RS256", KeySetURL: "https://keys.example/jwks"}
}

// The result depends only on the keys that Keys returns.
func TestFetchedKeysAreUsed(t *testing.T) {
	right, wrong := parsed(t, publicText(pairs().rsa)), parsed(t, publicText(pairs().ecdsa))
	named := func(id, algorithm string) []Key {
		return []Key{{ID: id, Algorithm: algorithm, Public: right[0].Public}}
	}
	failed := errors.New("connection refused by 192.0.2.1")
	schemes := []struct {
		c   Config
		url string
	}{
		{certificateConfig(), "https://api.keys.example/certificate"},
		{Config{Type: "aws_sns"}, "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0a.pem"},
		{keySetConfig(), "https://keys.example/jwks"},
	}
	for _, s := range schemes {
		mismatch := ReasonMismatch
		if s.c.Type == "jwt" {
			mismatch = ReasonKey // keys of another kind are ignored
		}
		for _, tt := range []struct {
			claim string
			keys  Keys
			want  Reason
		}{
			{"the right key", &fakeKeys{keys: right}, ""},
			{"the right key after another key", &fakeKeys{keys: slices.Concat(wrong, right)}, ""},
			{"only another key", &fakeKeys{keys: wrong}, mismatch},
			{"no key", &fakeKeys{}, mismatch},
			{"an error", &fakeKeys{err: failed}, ReasonUnavailable},
			{"keys with an error", &fakeKeys{keys: right, err: failed}, ReasonUnavailable},
			{"no Keys", nil, ReasonKey},
		} {
			r := signedFor(t, s.c, "", 100)
			err := mustNewWith(t, s.c, tt.keys).Verify(t.Context(), r)
			if got := reasonOf(t, err); got != tt.want {
				t.Errorf("%s: %s: got %q (%v), want %q", s.c.Type, tt.claim, got, err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "192.0.2.1") {
				t.Errorf("%s: %s: %v contains the cause, which is only for the log", s.c.Type, tt.claim, err)
			}
			if f, ok := tt.keys.(*fakeKeys); ok && (len(f.requested) != 1 || !strings.HasPrefix(f.requested[0], s.url+" ")) {
				t.Errorf("%s: %s: requested %q, want %s once", s.c.Type, tt.claim, f.requested, s.url)
			}
		}
	}
	for _, tt := range []struct {
		claim string
		keys  []Key
		want  Reason
	}{
		{"the id of the token", named("a", ""), ""},
		{"the id and the algorithm of the token", named("a", "RS256"), ""},
		{"no id", named("", ""), ""},
		{"another id", named("b", ""), ReasonKey},
		{"another algorithm", named("a", "PS256"), ReasonKey},
		{"another id before the matching one", append(named("b", ""), named("a", "")...), ""},
	} {
		keys := &fakeKeys{keys: tt.keys}
		r := &Request{Header: http.Header{"X-Token": {plainJWT(t, "RS256", map[string]any{"alg": "RS256", "kid": "a"}, map[string]any{"exp": signedAt + 9}, nil)}}, At: time.Unix(signedAt, 0)}
		if got := reasonOf(t, mustNewWith(t, keySetConfig(), keys).Verify(t.Context(), r)); got != tt.want {
			t.Errorf("a key with %s: got %q, want %q", tt.claim, got, tt.want)
		}
		if want := "https://keys.example/jwks a"; len(keys.requested) != 1 || keys.requested[0] != want {
			t.Errorf("a key with %s: requested %q, want %q", tt.claim, keys.requested, want)
		}
	}
}

// With configured keys, the URL of the certificate is still checked.
func TestConfiguredKeysAreNotFetched(t *testing.T) {
	for _, c := range []Config{certificateConfig(), {Type: "aws_sns"}, keySetConfig()} {
		c.PublicKeys = []string{publicText(pairs().rsa)}
		keys := &fakeKeys{err: errors.New("must not be called")}
		if err := mustNewWith(t, c, keys).Verify(t.Context(), signedFor(t, c, "", 100)); err != nil || len(keys.requested) > 0 {
			t.Errorf("%s: got %v, and requested %q; want it verified without a request", c.Type, err, keys.requested)
		}
	}
}

// Requests that are refused for another reason cause no fetch.
func TestRefusedRequestsFetchNothing(t *testing.T) {
	header := func(name, value string) func(*Request) { return func(r *Request) { r.Header.Set(name, value) } }
	body := func(old, now string) func(*Request) {
		return func(r *Request) { r.Body = []byte(strings.Replace(string(r.Body), old, now, 1)) }
	}
	for _, tt := range []struct {
		claim  string
		c      Config
		change func(*Request)
		want   Reason
	}{
		{"no signature", certificateConfig(), func(r *Request) { r.Header.Del("X-Sig") }, ReasonMissingHeader},
		{"a truncated signature", certificateConfig(), header("X-Sig", "AAAA"), ReasonEncoding},
		{"a foreign host", certificateConfig(), header("X-Cert", "https://evil.example/x"), ReasonKey},
		{"a trusted host as a prefix", certificateConfig(), header("X-Cert", "https://api.keys.example.evil.example/x"), ReasonKey},
		{"a trusted host as a user", certificateConfig(), header("X-Cert", "https://api.keys.example@evil.example/x"), ReasonKey},
		{"an arbitrary query", certificateConfig(), header("X-Cert", "https://api.keys.example/certificate?n=1"), ReasonKey},
		{"a query in the body", Config{Type: "aws_sns"}, body("-0a.pem", "-0a?.pem"), ReasonKey},
		{"an unknown type", Config{Type: "aws_sns"}, body(`"Notification"`, `"Notice"`), ReasonMalformed},
		{"an unknown version", Config{Type: "aws_sns"}, body(`"SignatureVersion":"2"`, `"SignatureVersion":"3"`), ReasonMalformed},
		{"a foreign host in the body", Config{Type: "aws_sns"}, body("https://sns.us-east-1.amazonaws.com/", "https://sns.us-east-1.amazonaws.com.evil.example/"), ReasonKey},
		{"http in the body", Config{Type: "aws_sns"}, body("https://sns", "http://sns"), ReasonKey},
		{"no certificate", Config{Type: "aws_sns"}, body(".pem", ".txt"), ReasonKey},
		{"no token", keySetConfig(), func(r *Request) { r.Header.Del("X-Token") }, ReasonMissingHeader},
		{"a truncated token", keySetConfig(), header("X-Token", "a.b"), ReasonEncoding},
		{"a token without a signature", keySetConfig(), header("X-Token", "eyJhbGciOiJub25lIn0.e30."), ReasonEncoding},
	} {
		keys := &fakeKeys{keys: parsed(t, publicText(pairs().rsa))}
		r := signedFor(t, tt.c, "", 100)
		tt.change(r)
		if got := reasonOf(t, mustNewWith(t, tt.c, keys).Verify(t.Context(), r)); got != tt.want || len(keys.requested) > 0 {
			t.Errorf("%s: got %q, and requested %q; want %q without a request", tt.claim, got, keys.requested, tt.want)
		}
	}
}

// The validity of a certificate is checked at the time of receipt.
func TestCertificatesExpire(t *testing.T) {
	keys := &fakeKeys{keys: parsed(t, certificateText(t))}
	for _, c := range []Config{certificateConfig(), {Type: "aws_sns"}} {
		v := mustNewWith(t, c, keys)
		for _, tt := range []struct {
			claim string
			after time.Duration
			want  Reason
		}{
			{"in the middle", 0, ""},
			{"at the start", -30 * time.Minute, ""},
			{"at the end", 30 * time.Minute, ""},
			{"before the start", -30*time.Minute - time.Second, ReasonKey},
			{"after the end", 30*time.Minute + time.Second, ReasonKey},
		} {
			r := signedFor(t, c, "", 100)
			r.At = r.At.Add(tt.after)
			if got := reasonOf(t, v.Verify(t.Context(), r)); got != tt.want {
				t.Errorf("%s: %s: got %q, want %q", c.Type, tt.claim, got, tt.want)
			}
		}
	}
}

// The wait for keys ends with the context.
func TestVerifyReturnsWhenContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []Config{certificateConfig(), {Type: "aws_sns"}, keySetConfig()} {
		keys := &fakeKeys{keys: parsed(t, publicText(pairs().rsa))}
		if got := reasonOf(t, mustNewWith(t, c, keys).Verify(ctx, signedFor(t, c, "", 100))); got != ReasonUnavailable {
			t.Errorf("%s: got %q, want %q", c.Type, got, ReasonUnavailable)
		}
	}
}

// Confirmations are requested from these hosts, too.
func TestIsSNSHost(t *testing.T) {
	for host, want := range map[string]bool{
		"sns.us-east-1.amazonaws.com": true, "sns.cn-north-1.amazonaws.com.cn": true, "sns.us-gov-west-1.amazonaws.com": true,
		"": false, "sns.amazonaws.com": false, "sns.us.amazonaws.com": false, "xsns.us-east-1.amazonaws.com": false, "sns.us-east-1.amazonaws.com.evil.example": false,
		"sns.a.b.amazonaws.com": false, "sns.us-east-1.amazonaws.com.": false, "sns.us-east-1.amazonaws.com\n": false, "sns-us-east-1.amazonaws.com": false,
		"sns.us-east-1xamazonaws.com": false, "sns.us-east-1.amazonaws.com.cnn": false,
	} {
		if got := IsSNSHost(host); got != want {
			t.Errorf("IsSNSHost(%q): got %t, want %t", host, got, want)
		}
	}
}
