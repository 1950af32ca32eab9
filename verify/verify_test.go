package verify

import (
	"encoding/hex"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestErrorsTellEnough holds the texts, since operators search for them, and
// that none gives away a secret or the right signature.
func TestErrorsTellEnough(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	secrets := []string{"secret-a", "secret-b"}
	signed := "t=1800000000,v1=" + hexMAC("secret-a", "1800000000.body")
	for _, tt := range []struct {
		claim, preset, value, want string
		at                         time.Time
	}{
		{"missing", "github", "", "missing_header: no X-Hub-Signature-256", at},
		{"malformed", "github", "sha256=zz", "malformed: no signature in X-Hub-Signature-256 has", at},
		{"mismatch", "github", "sha256=" + strings.Repeat("0", 64), "mismatch: no secret matched (of 2)", at},
		{"too many", "github", strings.Repeat(",", 16), "malformed: X-Hub-Signature-256 holds more than 16 signatures", at},
		{"late", "stripe", signed, "timestamp: signed 301 s before receipt, tolerance 300 s", at.Add(301 * time.Second)},
		{"early", "stripe", signed, "timestamp: signed 400 s after receipt, tolerance 300 s", at.Add(-400 * time.Second)},
		{"no moment of receipt", "stripe", signed, "timestamp: signed ", time.Time{}},
		{"no timestamp", "stripe", "v1=00", "malformed: Stripe-Signature does not hold exactly one t", at},
	} {
		p, _ := FindPreset(tt.preset)
		r := &Request{Header: map[string][]string{}, Body: []byte("body"), At: tt.at}
		if tt.value != "" {
			r.Header.Set(p.Verifier.Header, tt.value)
		}
		err := mustNew(t, p.Config(secrets)).Verify(r)
		if err == nil || !strings.HasPrefix(err.Error(), ErrSignature.Error()+": "+tt.want) {
			t.Errorf("%s: %v, want …%s", tt.claim, err, tt.want)
			continue
		}
		for _, leak := range append(secrets, hexMAC("secret-a", "body"), hexMAC("secret-b", "body"), signed) {
			if strings.Contains(err.Error(), leak) {
				t.Errorf("%s: %v gives away %s", tt.claim, err, leak)
			}
		}
	}
}

func TestVerifierIsItsOwn(t *testing.T) {
	c := Config{Type: "hmac", Header: "X-Sig", Secrets: []string{"right"}}
	v := mustNew(t, c)
	c.Secrets[0] = "changed"
	if err := v.Verify(signedRequest("right", "body")); err != nil {
		t.Errorf("a change of the config reached the verifier: %v", err)
	}
}

// TestEmptyKeyNeverMatches goes around Validate, which refuses an empty value.
func TestEmptyKeyNeverMatches(t *testing.T) {
	v := newAPIKey(Config{Header: "X-Key", Values: []string{""}})
	err := v.Verify(&Request{Header: map[string][]string{"X-Key": {""}}})
	if got := reasonOf(t, err); got != ReasonCredentials {
		t.Errorf("empty header, empty key: %q, want %q", got, ReasonCredentials)
	}
}

// TestConcurrentUse shares one verifier among good and forged requests of
// several lengths; run it with -race.
func TestConcurrentUse(t *testing.T) {
	v := mustNew(t, Config{Type: "hmac", Header: "X-Sig", Secrets: []string{"new", "old"}})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			body := strings.Repeat("x", i*100)
			for range 200 {
				if err := v.Verify(signedRequest("old", body)); err != nil {
					t.Errorf("signed with the old secret: %v", err)
				}
				if got := reasonOf(t, v.Verify(signedRequest("forged", body))); got != ReasonMismatch {
					t.Errorf("forged: %q, want a mismatch", got)
				}
			}
		})
	}
	wg.Wait()
}

func mustNew(t testing.TB, c Config) Verifier {
	t.Helper()
	v, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func signedRequest(secret, body string) *Request {
	return &Request{Header: map[string][]string{"X-Sig": {hexMAC(secret, body)}}, Body: []byte(body)}
}

func hexMAC(secret, message string) string { return hex.EncodeToString(bareMAC(secret, message)) }
