package eventhook_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

func TestCheckSigningSecret(t *testing.T) {
	standard := func(n int) string { return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	const example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" // from standardwebhooks.com
	for _, c := range []struct {
		claim, secret string
		ok            bool
	}{
		{"the example of the specification", example, true},
		{"a key of the minimum length", standard(24), true},
		{"a key of the maximum length", standard(64), true},
		{"a shorter key", standard(23), false},
		{"a longer key", standard(65), false},
		{"base64 without padding", strings.TrimRight(standard(32), "="), false},
		{"base64 with trailing bits, which some decoders refuse", strings.TrimSuffix(standard(25), "A==") + "B==", false},
		{"base64url", "whsec_" + strings.Repeat("-_", 16), false},
		{"base64 with a line break", example[:20] + "\n" + example[20:], false},
		{"the prefix alone", "whsec_", false},
		{"a text", "correct-horse-battery", true},
		{"a text of the minimum length", strings.Repeat("x", 16), true},
		{"a shorter text", strings.Repeat("x", 15), false},
		{"a text of the maximum length", strings.Repeat("x", 255), true},
		{"a longer text", strings.Repeat("x", 256), false},
		{"nothing", "", false},
		{"a text with a space", "correct horse battery", false},
		{"a text that is not ASCII", "correct-hörse-battery", false},
		{"a text with a line break", "correct-horse\nbattery", false},
	} {
		got := eventhook.CheckSigningSecret(c.secret)
		if (got == "") != c.ok || c.secret != "" && strings.Contains(got, c.secret) && c.secret != "whsec_" {
			t.Errorf("%s: got %q, want valid: %t", c.claim, got, c.ok)
		}
	}
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(example, "whsec_"))
	if got := eventhook.SigningKey(eventhook.NewSecret(example)); !bytes.Equal(got, key) {
		t.Errorf("the key is %x, want the decoded bytes %x", got, key)
	}
	const text = "correcthorsebattery8" // valid base64, but not decoded without the prefix whsec_
	if got := eventhook.SigningKey(eventhook.NewSecret(text)); string(got) != text {
		t.Errorf("the key of a plain text is %q, want the text", got)
	}
}

func TestNewSigningSecretIsValid(t *testing.T) {
	a, b := eventhook.NewSigningSecret(), eventhook.NewSigningSecret()
	if wrong := eventhook.CheckSigningSecret(a.Reveal()); wrong != "" || !strings.HasPrefix(a.Reveal(), "whsec_") || len(eventhook.SigningKey(a)) != 32 {
		t.Errorf("%q: %s", a.Reveal(), wrong)
	}
	if a.Equal(b) {
		t.Error("two generated secrets are equal")
	}
}

func TestEd25519PublicKey(t *testing.T) {
	seed := eventhook.NewEd25519Seed()
	text := eventhook.Ed25519PublicKey(seed)
	public, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whpk_"))
	if err != nil || !strings.HasPrefix(text, "whpk_") || len(public) != ed25519.PublicKeySize {
		t.Fatalf("got the public key %q, want whpk_ and base64", text)
	}
	message := []byte("id.1.body")
	if !ed25519.Verify(public, message, ed25519.Sign(eventhook.Ed25519Key(seed), message)) {
		t.Error("the public key does not verify a signature of the seed")
	}
	if seed.Equal(eventhook.NewEd25519Seed()) {
		t.Error("two generated seeds are equal")
	}
	for _, bad := range []string{"", "x", "AAAA"} {
		if got := eventhook.Ed25519PublicKey(eventhook.NewSecret(bad)); got != "" {
			t.Errorf("Ed25519PublicKey(%q): got %q, want an empty text", bad, got)
		}
	}
}

func TestSigningSecretWarning(t *testing.T) {
	for secret, want := range map[string]bool{
		"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw":             true,
		"C2FVsBQIhrscChlQIMV+b5sSYspob7oD":             true,
		"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw":       false,
		"0123456789abcdef0123456789abcdef":             false, // hex
		"correcthorsebatterystaplecorrect":             false,
		"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS":              false, // incomplete base64
		"A text with spaces, 1":                        false,
		"MfKQ9r8GKYqrTwjU":                             false, // too short for a key
		"dGhpcyBpcyBhIHNlY3JldCB0aGF0IGhhcyBwYWRkaW5n": true,
	} {
		got := eventhook.SigningSecretWarning(secret)
		if (got != "") != want || strings.Contains(got, secret) {
			t.Errorf("%s: got %q, want a warning: %t", secret, got, want)
		}
	}
}
