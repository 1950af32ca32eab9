package eventhook

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
)

// What Standard Webhooks puts before a secret and before a public key.
const (
	secretPrefix    = "whsec_"
	publicKeyPrefix = "whpk_"
)

// The bytes of the keys that sign: those of Standard Webhooks, and of a text
// that somebody brings along.
const (
	leastKey, mostKey         = 24, 64
	leastSecret, longestPlain = 16, 255
)

// NewSigningSecret makes a secret of 32 random bytes, as whsec_ and base64.
func NewSigningSecret() Secret {
	const size = 32
	return NewSecret(secretPrefix + base64.StdEncoding.EncodeToString(randomBytes(size)))
}

// CheckSigningSecret says what is wrong with a secret that somebody gives, ""
// if nothing; never the secret. It is whsec_ and base64 of 24 to 64 bytes, as
// Standard Webhooks has it, or else a text without whsec_, of 16 to 255
// visible characters of ASCII.
func CheckSigningSecret(secret string) string {
	text, isStandard := strings.CutPrefix(secret, secretPrefix)
	switch {
	case isStandard:
		key, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || len(key) < leastKey || len(key) > mostKey || strings.ContainsAny(text, "\r\n") {
			return fmt.Sprintf("must be base64, with its padding, of %d to %d bytes behind %s", leastKey, mostKey, secretPrefix)
		}
	case len(secret) < leastSecret || len(secret) > longestPlain || strings.ContainsFunc(secret, isHidden):
		return fmt.Sprintf("must be %s and base64 of %d to %d bytes, or a text of %d to %d visible characters of ASCII",
			secretPrefix, leastKey, mostKey, leastSecret, longestPlain)
	}
	return ""
}

// SigningSecretWarning says what may be meant otherwise by a secret that
// CheckSigningSecret takes, "" if nothing; never the secret. A text that reads
// like base64 is used as it is, but whoever copied it from another sender may
// expect its decoded bytes.
func SigningSecretWarning(secret string) string {
	hasAny := func(from, to rune) bool {
		return strings.ContainsFunc(secret, func(c rune) bool { return from <= c && c <= to })
	}
	isMixed := hasAny('a', 'z') && hasAny('A', 'Z') && hasAny('0', '9') || strings.ContainsAny(secret, "+/=")
	key, err := base64.StdEncoding.Strict().DecodeString(secret)
	if err != nil || !isMixed || len(key) < leastKey || len(key) > mostKey {
		return ""
	}
	return "signing_secret reads like base64 but has no " + secretPrefix + " before it: its text is the key, not the bytes that it encodes"
}

func isHidden(c rune) bool { return c <= ' ' || c >= 0x7f }

// SigningKey is the key of the HMAC that a secret stands for: what is encoded
// behind whsec_, else the bytes of its text.
func SigningKey(secret Secret) []byte {
	text := secret.Reveal()
	if encoded, isStandard := strings.CutPrefix(text, secretPrefix); isStandard {
		if key, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			return key
		}
	}
	return []byte(text)
}

// NewEd25519Seed makes a private key of ed25519: 32 random bytes in base64.
func NewEd25519Seed() Secret {
	return NewSecret(base64.StdEncoding.EncodeToString(randomBytes(ed25519.SeedSize)))
}

// Ed25519Key is the private key that a seed stands for; nil if it is none.
func Ed25519Key(seed Secret) ed25519.PrivateKey {
	raw, err := base64.StdEncoding.DecodeString(seed.Reveal())
	if err != nil || len(raw) != ed25519.SeedSize {
		return nil
	}
	return ed25519.NewKeyFromSeed(raw)
}

// Ed25519PublicKey is what a receiver verifies the signatures of a seed with, as
// Standard Webhooks writes it: whpk_ and base64. It is "" if the seed is none.
func Ed25519PublicKey(seed Secret) string {
	key := Ed25519Key(seed)
	if key == nil {
		return ""
	}
	return publicKeyPrefix + base64.StdEncoding.EncodeToString(key[ed25519.SeedSize:])
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails, see crypto/rand
	return b
}
