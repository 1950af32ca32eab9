package verify

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"
	"time"
)

// otherSigned returns a request with the headers and fields that a preset requires,
// signed at another time and with another secret.
func otherSigned(t *testing.T, c Config) *Request {
	t.Helper()
	r := signedFor(t, c, "other", 1024)
	r.URL, r.At = signedURL, time.Unix(signedAt+7, 0)
	return r
}

func TestEveryPresetVerifiesWhatSignSigns(t *testing.T) {
	for _, p := range Presets() {
		t.Run(p.ID+"/"+p.Scheme, func(t *testing.T) {
			c, v := presetVerifier(t, p, "secret")
			r := otherSigned(t, c)
			if !c.SignsWithPrivateKey() {
				if err := v.Verify(t.Context(), r); reasonOf(t, err) == "" {
					t.Fatal("signed with another secret, and verified")
				}
			}
			if err := c.Sign(r, signerFor(c)); err != nil {
				t.Fatalf("Sign: %v", err)
			}
			if err := v.Verify(t.Context(), r); err != nil {
				t.Errorf("%v, want the signed request verified", err)
			}
			late := *r
			late.At = r.At.Add(24 * time.Hour)
			if hasTime := c.Type == "jwt" && (c.ToleranceSeconds == nil || *c.ToleranceSeconds > 0); hasTime && v.Verify(t.Context(), &late) == nil {
				t.Error("verified a day later, want the time of signing in the token")
			}
		})
	}
}

// A signature with a private key needs one, of the right kind.
func TestSignWithPrivateKey(t *testing.T) {
	needing := 0
	for _, p := range Presets() {
		c, _ := presetVerifier(t, p, "secret")
		err := c.Sign(otherSigned(t, c), nil)
		if errors.Is(err, ErrPrivateKey) != c.SignsWithPrivateKey() || !c.SignsWithPrivateKey() && err != nil {
			t.Errorf("%s without a key: %v, SignsWithPrivateKey %t", p.ID, err, c.SignsWithPrivateKey())
		}
		if !c.SignsWithPrivateKey() {
			continue
		}
		needing++
		var wrong crypto.Signer = pairs().ed
		if _, isEd25519 := signerFor(c).(ed25519.PrivateKey); isEd25519 {
			wrong = pairs().rsa
		}
		if err := c.Sign(otherSigned(t, c), wrong); err == nil || !strings.Contains(err.Error(), "for another algorithm") {
			t.Errorf("%s with a key of another kind: %v", p.ID, err)
		}
	}
	if needing == 0 {
		t.Error("no preset needs a private key")
	}
}

func TestSignPublicKeysOfStandardWebhooks(t *testing.T) {
	c := Config{Type: "standard_webhooks", PublicKeys: []string{publicText(pairs().ed)}}
	r := &Request{Header: map[string][]string{"Webhook-Id": {"msg_1"}}, Body: []byte(`{}`), At: time.Unix(signedAt, 0)}
	if err := c.Sign(r, pairs().ed); err != nil || !strings.HasPrefix(r.Header.Get("Webhook-Signature"), "v1a,") {
		t.Fatalf("%v, %v", err, r.Header)
	}
	if err := mustNewWith(t, c, nil).Verify(t.Context(), r); err != nil {
		t.Error(err)
	}
}

func TestSignSaysWhatIsMissing(t *testing.T) {
	body := func(text string) *Request {
		return &Request{Method: "POST", Body: []byte(text), At: time.Unix(signedAt, 0)}
	}
	mailgun, _ := FindPreset("mailgun", "")
	adyen, _ := FindPreset("adyen", "")
	for _, tt := range []struct {
		claim string
		c     Config
		r     *Request
		want  string
	}{
		{"an invalid Config", Config{Type: "hmac"}, body("{}"), "the verifier is invalid"},
		{"no id", Config{Type: "standard_webhooks", Secrets: []string{"whsec_c2VjcmV0"}}, body("{}"), "no webhook-id"},
		{"no URL", Config{Type: "hmac", Header: "X-A", Signed: "{url}{body}", Secrets: []string{"topsecret"}}, body("{}"), "covers the URL"},
		{"no object in the body", mailgun.Verifier, body("[]"), "cannot be signed"},
		{"no items in the body", adyen.Verifier, body(`{"a":1}`), "no notificationItems"},
		{"no JSON", Config{Type: "api_key", Path: "a.b", Values: []string{"topsecret"}}, body("x"), "cannot be read as JSON"},
		{"no array", Config{Type: "api_key", Path: "a.#.b", Values: []string{"topsecret"}}, body(`{"a":{}}`), "no object for a.#.b"},
	} {
		if tt.c.Type == "body_hmac" {
			tt.c.Secrets = []string{"abcd"}
		}
		err := tt.c.Sign(tt.r, nil)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%s: %v, want %q and no secret", tt.claim, err, tt.want)
		}
	}
}

// Sign signs each item of a body, keeps large numbers, and sets a form's field once.
func TestSignInTheBody(t *testing.T) {
	adyen, _ := FindPreset("adyen", "")
	c := adyen.Verifier
	c.Secrets = []string{"abcd"}
	item := func(ref string) string {
		return `{"NotificationRequestItem":{"pspReference":"` + ref + `","amount":{"value":12345678901234567890}}}`
	}
	r := &Request{Method: "POST", Body: []byte(`{"notificationItems":[` + item("a") + "," + item("b") + `]}`), At: time.Unix(signedAt, 0)}
	if err := c.Sign(r, nil); err != nil {
		t.Fatal(err)
	}
	if err := mustNewWith(t, c, nil).Verify(t.Context(), r); err != nil || !bytes.Contains(r.Body, []byte("12345678901234567890")) {
		t.Errorf("%v: %s", err, r.Body)
	}
	form := Config{Type: "body_hmac", Path: "sig", Signed: "{field.data}", Secrets: []string{"secret"}}
	r = &Request{Header: map[string][]string{"Content-Type": {"application/x-www-form-urlencoded"}}, Body: []byte("sig=old&data=a%20b")}
	for range 2 {
		if err := form.Sign(r, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := mustNewWith(t, form, nil).Verify(t.Context(), r); err != nil || bytes.Count(r.Body, []byte("sig=")) != 1 {
		t.Errorf("%v: %s", err, r.Body)
	}
}

func TestSignAddsTheHashOfABodyToTheURL(t *testing.T) {
	twilio, _ := FindPreset("twilio", "")
	c := twilio.Verifier
	c.Secrets = []string{"secret"}
	r := &Request{Method: "POST", URL: signedURL, Header: map[string][]string{"Content-Type": {"application/json"}}, Body: []byte(`{}`)}
	if err := c.Sign(r, nil); err != nil || !strings.Contains(r.URL, "&bodySHA256=") {
		t.Fatalf("%v, %s", err, r.URL)
	}
	if err := mustNewWith(t, c, nil).Verify(t.Context(), r); err != nil {
		t.Error(err)
	}
}
