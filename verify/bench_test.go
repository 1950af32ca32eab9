package verify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"strings"
	"testing"
)

// bodySize is the size of an ordinary webhook.
const bodySize = 1024

// BenchmarkBare measures the cryptographic operations with the standard library
// only. For an HMAC in a header, BenchmarkVerify should take at most 1.3 times as
// long and 6 allocations. The first part of a name in BenchmarkVerify is the name
// to compare with in BenchmarkBare.
func BenchmarkBare(b *testing.B) {
	body := strings.Repeat("0123456789abcdef", bodySize/16)
	for _, algorithm := range []string{"sha1", "sha256", "sha512"} {
		b.Run(algorithm, func(b *testing.B) { bareHMAC(b, algorithm, body) })
	}
	b.Run("plain_sha256", func(b *testing.B) {
		message := []byte("secret" + body)
		want := sha256.Sum256(message)
		b.ReportAllocs()
		for b.Loop() {
			if got := sha256.Sum256(message); !hmac.Equal(got[:], want[:]) {
				b.Fatal("mismatch")
			}
		}
	})
	for _, algorithm := range []string{"ed25519", "ecdsa_sha256", "ecdsa_sha1", "rsa_sha256", "rsa_sha1"} {
		b.Run(algorithm, func(b *testing.B) { bareSignature(b, algorithm, body) })
	}
}

func bareHMAC(b *testing.B, algorithm, body string) {
	key, want, text := []byte("secret"), macOf(algorithm, []byte("secret"), body), []byte(body)
	b.ReportAllocs()
	for b.Loop() {
		mac := hmac.New(plainHash(algorithm), key)
		mac.Write(text)
		if !hmac.Equal(mac.Sum(nil), want) {
			b.Fatal("mismatch")
		}
	}
}

func bareSignature(b *testing.B, algorithm, body string) {
	sig, text := privateSignature(b, algorithm, body), []byte(body)
	newHash, hash := plainHash("sha256"), crypto.SHA256
	if strings.HasSuffix(algorithm, "sha1") {
		newHash, hash = plainHash("sha1"), crypto.SHA1
	}
	digest := func() []byte {
		h := newHash()
		h.Write(text)
		return h.Sum(nil)
	}
	verify := func() bool { return rsa.VerifyPKCS1v15(&pairs().rsa.PublicKey, hash, digest(), sig) == nil }
	switch {
	case algorithm == "ed25519":
		verify = func() bool { return ed25519.Verify(pairs().ed.Public().(ed25519.PublicKey), text, sig) }
	case strings.HasPrefix(algorithm, "ecdsa"):
		verify = func() bool { return ecdsa.VerifyASN1(&pairs().ecdsa.PublicKey, digest(), sig) }
	}
	b.ReportAllocs()
	for b.Loop() {
		if !verify() {
			b.Fatal("mismatch")
		}
	}
}

// primitive returns the name in BenchmarkBare to compare a preset with.
func primitive(c Config) string {
	switch c.Type {
	case "hash":
		return "plain_" + cmpOr(c.Algorithm, "sha256")
	case "public_key":
		return cmpOr(c.Algorithm, "ed25519")
	case "aws_sns":
		return "rsa_sha256"
	case "jwt":
		return map[string]string{"": "rsa_sha256", "RS256": "rsa_sha256", "ES256": "ecdsa_sha256", "HS256": "sha256"}[c.Algorithm]
	case "api_key", "basic_auth":
		return "token"
	}
	return cmpOr(c.Algorithm, "sha256")
}

func BenchmarkVerify(b *testing.B) {
	for _, p := range Presets() {
		b.Run(primitive(p.Verifier)+"/"+p.Verifier.Type+"/"+p.ID+"/"+p.Scheme, func(b *testing.B) {
			c, v := presetVerifier(b, p, "secret")
			r, ctx := signedFor(b, c, "secret", bodySize), b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if err := v.Verify(ctx, r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkForgery measures the cost of a forged request.
func BenchmarkForgery(b *testing.B) {
	for _, id := range []string{"github", "stripe", "standard-webhooks", "mailgun", "twilio", "monday"} {
		b.Run(id, func(b *testing.B) {
			p, _ := FindPreset(id, "")
			c, v := presetVerifier(b, p, "secret")
			r, ctx := signedFor(b, c, "forged", bodySize), b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if v.Verify(ctx, r) == nil {
					b.Fatal("verified")
				}
			}
		})
	}
}
