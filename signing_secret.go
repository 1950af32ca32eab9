package eventhook

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"time"
)

// Prefixes of secrets and public keys (Standard Webhooks).
const (
	secretPrefix    = "whsec_"
	publicKeyPrefix = "whpk_"
)

// Lengths of signing keys in bytes: of decoded Standard Webhooks secrets, and of
// plain texts.
const (
	minKey, maxKey     = 24, 64
	minPlain, maxPlain = 16, 255
)

// NewSigningSecret returns a new secret of 32 random bytes: whsec_ and base64.
func NewSigningSecret() Secret {
	const size = 32
	return NewSecret(secretPrefix + base64.StdEncoding.EncodeToString(randomBytes(size)))
}

// CheckSigningSecret says why a signing secret is invalid, "" if it is valid. The
// text never contains the secret. A valid secret is whsec_ followed by base64 of 24
// to 64 bytes (Standard Webhooks), or a text without that prefix of 16 to 255
// visible ASCII characters.
func CheckSigningSecret(secret string) string {
	text, isStandard := strings.CutPrefix(secret, secretPrefix)
	switch {
	case isStandard:
		key, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || len(key) < minKey || len(key) > maxKey || strings.ContainsAny(text, "\r\n") {
			return fmt.Sprintf("must be base64, with padding, of %d to %d bytes after %s", minKey, maxKey, secretPrefix)
		}
	case len(secret) < minPlain || len(secret) > maxPlain || strings.ContainsFunc(secret, isNotVisible):
		return fmt.Sprintf("must be %s followed by base64 of %d to %d bytes, or a text of %d to %d visible ASCII characters",
			secretPrefix, minKey, maxKey, minPlain, maxPlain)
	}
	return ""
}

// SigningSecretWarning warns about a valid secret that its owner may expect to be
// decoded, "" without a warning: a text that looks like base64 but has no whsec_
// prefix is used as it is. The warning never contains the secret.
func SigningSecretWarning(secret string) string {
	hasAny := func(from, to rune) bool {
		return strings.ContainsFunc(secret, func(c rune) bool { return from <= c && c <= to })
	}
	isMixed := hasAny('a', 'z') && hasAny('A', 'Z') && hasAny('0', '9') || strings.ContainsAny(secret, "+/=")
	key, err := base64.StdEncoding.Strict().DecodeString(secret)
	if err != nil || !isMixed || len(key) < minKey || len(key) > maxKey {
		return ""
	}
	return "signing_secret looks like base64 but does not start with " + secretPrefix + ": the text itself is the key, not the bytes that it encodes"
}

func isNotVisible(c rune) bool { return c <= ' ' || c >= 0x7f }

// SigningKey returns the HMAC key of a secret: the bytes encoded after whsec_, or
// the bytes of the text itself.
func SigningKey(secret Secret) []byte {
	text := secret.Reveal()
	if encoded, isStandard := strings.CutPrefix(text, secretPrefix); isStandard {
		if key, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			return key
		}
	}
	return []byte(text)
}

// NewEd25519Seed returns a new Ed25519 private key: 32 random bytes in base64.
func NewEd25519Seed() Secret {
	return NewSecret(base64.StdEncoding.EncodeToString(randomBytes(ed25519.SeedSize)))
}

// Ed25519Key returns the private key of a seed, nil if the seed is invalid.
func Ed25519Key(seed Secret) ed25519.PrivateKey {
	raw, err := base64.StdEncoding.DecodeString(seed.Reveal())
	if err != nil || len(raw) != ed25519.SeedSize {
		return nil
	}
	return ed25519.NewKeyFromSeed(raw)
}

// Ed25519PublicKey returns the public key of a seed as Standard Webhooks writes it:
// whpk_ and base64. It returns "" if the seed is invalid.
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

// DefaultRotationGrace is how long the previous secret still signs after a rotation.
const DefaultRotationGrace = 24 * time.Hour

// RotateSigningSecret makes next the current secret. The previous secret still signs
// until the grace period ends; if a rotation is in progress, its oldest secret ends
// now. Rotating to the current secret changes nothing. Rotating back to the previous
// secret makes it current again.
func RotateSigningSecret(current []SigningSecret, next Secret, now time.Time, grace time.Duration) []SigningSecret {
	if len(current) > 0 && current[0].Secret.Equal(next) {
		return current
	}
	list := []SigningSecret{{Secret: next}}
	for _, s := range current {
		if s.ExpiresAt == nil {
			s.ExpiresAt = new(now.Add(grace))
		}
		if len(list) < MaxSigningSecrets && s.ExpiresAt.After(now) && !s.Secret.Equal(next) {
			list = append(list, s)
		}
	}
	return list
}
