package verify_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/verify"
)

const sdkSecret = "s3cr3t"

var sdkNow = time.Unix(1700000000, 0)

func macOf(text string) []byte {
	mac := hmac.New(sha256.New, []byte(sdkSecret))
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// wantVerified checks the result of a verifier.
func wantVerified(t *testing.T, claim string, c verify.Config, header http.Header, body string, want bool) {
	t.Helper()
	v, err := verify.New(c, nil)
	if err != nil {
		t.Fatal(claim, err)
	}
	err = v.Verify(t.Context(), &verify.Request{Method: "POST", URL: "https://h.example/in", Header: header, Body: []byte(body), At: sdkNow})
	if (err == nil) != want {
		t.Errorf("%s: got %v, want verified: %t", claim, err, want)
	}
}

// Sanity signs "t=<ms>,v1=<base64url>" over "<ms>.<body>", without padding.
func TestBase64URLSignatures(t *testing.T) {
	config := verify.Config{Type: "timestamped_hmac", Header: "Sanity-Webhook-Signature", TimestampUnit: "milliseconds", Encoding: "base64url", Secrets: []string{sdkSecret}}
	var body string
	var sum []byte
	for n := 0; ; n++ { // until the signature contains characters in which the alphabets differ
		body = fmt.Sprintf(`{"n":%d}`, n)
		if sum = macOf("1700000000000." + body); strings.ContainsAny(base64.StdEncoding.EncodeToString(sum), "+/") {
			break
		}
	}
	unpadded := base64.RawURLEncoding.EncodeToString(sum)
	last := strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", unpadded[len(unpadded)-1])
	for _, c := range []struct {
		claim, signature string
		want             bool
	}{
		{"without padding", unpadded, true},
		{"with padding", unpadded + "=", true},
		{"with too much padding", unpadded + "==", false},
		{"with unnecessary padding", unpadded + "=====", false},
		{"in base64", base64.StdEncoding.EncodeToString(sum), false},
		{"in hex", hex.EncodeToString(sum), false},
		{"cut short", base64.RawURLEncoding.EncodeToString(sum[:31]), false},
		{"with unused bits that are not 0", unpadded[:len(unpadded)-1] + string("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[last|1]), false},
		{"with a line break", unpadded[:4] + "\n" + unpadded[4:], false},
	} {
		wantVerified(t, c.claim, config, http.Header{"Sanity-Webhook-Signature": {"t=1700000000000,v1=" + c.signature}}, body, c.want)
	}
}

// tokenOf returns a JWT that is signed with sdkSecret.
func tokenOf(claims string) string {
	signed := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	return signed + "." + base64.RawURLEncoding.EncodeToString(macOf(signed))
}

// LiveKit sends a JWT without Bearer and with the claim sha256 in base64.
func TestBase64BodyHashes(t *testing.T) {
	var body string
	var sum [sha256.Size]byte
	for n := 0; !strings.ContainsAny(base64.StdEncoding.EncodeToString(sum[:]), "+/"); n++ { // until the hash contains characters in which the alphabets differ
		body = fmt.Sprintf(`{"event":"room_started","n":%d}`, n)
		sum = sha256.Sum256([]byte(body))
	}
	in := map[string]string{"hex": hex.EncodeToString(sum[:]), "base64": base64.StdEncoding.EncodeToString(sum[:]), "base64url": base64.RawURLEncoding.EncodeToString(sum[:])}
	for encoding := range in {
		config := verify.Config{Type: "jwt", Header: "Authorization", Algorithm: "HS256", Secrets: []string{sdkSecret}, BodyHashClaim: "sha256", BodyHashEncoding: encoding}
		for written, hash := range in {
			header := http.Header{"Authorization": {tokenOf(`{"exp":1700000060,"sha256":"` + hash + `"}`)}}
			wantVerified(t, written+" as "+encoding, config, header, body, written == encoding)
			wantVerified(t, written+" of another body as "+encoding, config, header, body+" ", false)
		}
		wantVerified(t, "no hash as "+encoding, config, http.Header{"Authorization": {tokenOf(`{"exp":1700000060}`)}}, body, false)
		wantVerified(t, "half a hash as "+encoding, config, http.Header{"Authorization": {tokenOf(`{"exp":1700000060,"sha256":"` + in[encoding][:22] + `"}`)}}, body, false)
	}
}

func TestTokenAgeIsCheckedByDefault(t *testing.T) {
	for _, c := range []struct {
		claim     string
		tolerance *int
		claims    string
		want      bool
	}{
		{"a young one", nil, `{"iat":1699999701,"exp":1700003600}`, true},
		{"an old one", nil, `{"iat":1699999699,"exp":1700003600}`, false},
		{"a token without iat", nil, `{"exp":1700003600}`, true},
		{"a token without exp", nil, `{"iat":1699999701}`, false},
		{"an old token whose age is not checked", new(0), `{"iat":1600000000,"exp":1700003600}`, true},
		{"a token older than the configured age", new(60), `{"iat":1699999939,"exp":1700003600}`, false},
		{"a token without iat and with a configured age", new(60), `{"exp":1700003600}`, false},
	} {
		config := verify.Config{Type: "jwt", Algorithm: "HS256", Secrets: []string{sdkSecret}, ToleranceSeconds: c.tolerance}
		wantVerified(t, c.claim, config, http.Header{"Authorization": {"Bearer " + tokenOf(c.claims)}}, "{}", c.want)
	}
}

// The libraries of these providers accept timestamps in the future.
func TestFutureTimestamps(t *testing.T) {
	for _, c := range []struct {
		provider, header, stampHeader, stamp, signed, format string
		encode                                               func([]byte) string
	}{
		{"paddle", "Paddle-Signature", "", "1700009000", "1700009000:{}", "ts=1700009000;h1=%s", hex.EncodeToString},
		{"elevenlabs", "Elevenlabs-Signature", "", "1700009000", "1700009000.{}", "t=1700009000,v0=%s", hex.EncodeToString},
		{"workos", "Workos-Signature", "", "1700009000000", "1700009000000.{}", "t=1700009000000, v1=%s", hex.EncodeToString},
		{"hubspot", "X-Hubspot-Signature-V3", "X-Hubspot-Request-Timestamp", "1700009000000", "POSThttps://h.example/in{}1700009000000", "%s", base64.StdEncoding.EncodeToString},
	} {
		header := http.Header{c.header: {fmt.Sprintf(c.format, c.encode(macOf(c.signed)))}}
		if c.stampHeader != "" {
			header.Set(c.stampHeader, c.stamp)
		}
		resolved, faults := verify.Spec{Provider: c.provider, Secrets: []string{sdkSecret}}.Resolve()
		if len(faults) > 0 {
			t.Fatal(c.provider, faults)
		}
		wantVerified(t, c.provider, resolved.Config, header, "{}", true)
		resolved.Config.AllowFuture = false
		wantVerified(t, c.provider+" without AllowFuture", resolved.Config, header, "{}", false)
	}
	if p, _ := verify.FindPreset("contentful", ""); !p.Verifier.AllowFuture {
		t.Error("contentful: AllowFuture is false, want true")
	}
}
