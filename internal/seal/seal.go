// Package seal encrypts secrets for the database with AES-256-GCM. A Keyring has several
// keys, so that keys can be rotated. A sealed text is bound to its place, such as a column
// and a row: a copy of it in another place cannot be opened. The package stores nothing.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// KeyBytes is the length of a key in bytes.
const KeyBytes = 32

// Errors of Open. They never contain the text or a key.
var (
	ErrUnknownKey = errors.New("sealed with a key that is not configured")
	ErrTampered   = errors.New("the sealed text is damaged, or it was sealed for another place")
)

// Keyring seals with its first key and opens with any of its keys. It is safe for
// concurrent use.
type Keyring struct {
	ids  []string // newest first
	raw  []byte   // the newest key, for Derive
	keys map[string]cipher.AEAD
}

// New returns a Keyring of keys in base64, each KeyBytes long, newest first. Its errors
// name a key by its position and never quote it.
func New(encoded ...string) (*Keyring, error) {
	if len(encoded) == 0 {
		return nil, errors.New("no encryption key")
	}
	k := &Keyring{keys: map[string]cipher.AEAD{}}
	for i, e := range encoded {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(e))
		if err != nil || len(raw) != KeyBytes {
			return nil, fmt.Errorf("encryption key %d is not %d bytes in base64; create one with: openssl rand -base64 %[2]d", i+1, KeyBytes)
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return nil, fmt.Errorf("encryption key %d: %w", i+1, err)
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, fmt.Errorf("encryption key %d: %w", i+1, err)
		}
		if i == 0 {
			k.raw = raw
		}
		id := keyID(raw)
		if k.keys[id] == nil {
			k.ids = append(k.ids, id)
		}
		k.keys[id] = aead
	}
	return k, nil
}

// KeyIDs returns the ids of the keys, each once. The first one is of the key that seals.
func (k *Keyring) KeyIDs() []string { return slices.Clone(k.ids) }

// Derive returns a key for the given purpose, derived from the newest key. All instances
// with the same newest key get the same result; other purposes get other keys.
func (k *Keyring) Derive(purpose string) []byte {
	mac := hmac.New(sha256.New, k.raw)
	_, _ = mac.Write([]byte("eventhook derived key\x00" + purpose)) // never fails
	return mac.Sum(nil)
}

// keyID returns an id that reveals nothing about the key.
func keyID(raw []byte) string {
	sum := sha256.Sum256(append([]byte("eventhook key id\x00"), raw...))
	return hex.EncodeToString(sum[:4])
}

// NewKey returns a random key in base64.
func NewKey() string {
	raw := make([]byte, KeyBytes)
	_, _ = rand.Read(raw) // never fails, see crypto/rand.Read
	return base64.StdEncoding.EncodeToString(raw)
}

// Prefixes of sealed texts. A bound text opens only in its place, an unbound text in any.
const (
	UnboundPrefix = "enc:"
	BoundPrefix   = "enc2:"
)

// Seal encrypts a text and returns "enc2:<key id>:<base64 of nonce and ciphertext>", which
// Open accepts only with the same place. If place is empty, Seal returns the unbound format
// of former versions, "enc:<key id>:<base64>". Sealing a text twice gives different results.
func (k *Keyring) Seal(plain, place string) (string, error) {
	prefix := BoundPrefix
	if place == "" {
		prefix = UnboundPrefix
	}
	// This AEAD generates a random nonce and prepends it to the ciphertext.
	id := k.ids[0]
	sealed := k.keys[id].Seal(nil, nil, []byte(plain), additionalData(prefix, id, place)) //nolint:gosec // the AEAD generates the nonce
	return prefix + id + ":" + base64.StdEncoding.EncodeToString(sealed), nil
}

// Open decrypts a sealed text. It returns ErrUnknownKey if the key is not in the keyring,
// and ErrTampered if the text was changed, is not a sealed text, or was bound to another
// place. An unbound text opens in every place; the caller decides whether it still accepts
// unbound texts.
func (k *Keyring) Open(sealed, place string) (string, error) {
	prefix, rest, ok := cutPrefix(sealed)
	id, encoded, hasID := strings.Cut(rest, ":")
	if !ok || !hasID {
		return "", ErrTampered
	}
	aead, ok := k.keys[id]
	if !ok {
		return "", ErrUnknownKey
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return "", ErrTampered
	}
	plain, err := aead.Open(nil, nil, raw, additionalData(prefix, id, place))
	if err != nil {
		return "", ErrTampered
	}
	return string(plain), nil
}

func cutPrefix(sealed string) (prefix, rest string, ok bool) {
	for _, prefix := range []string{UnboundPrefix, BoundPrefix} {
		if rest, ok := strings.CutPrefix(sealed, prefix); ok {
			return prefix, rest, true
		}
	}
	return "", "", false
}

// additionalData returns the data that GCM authenticates beside the ciphertext. For unbound
// texts it is the key id, as in former versions. An id contains no ":", so the additional
// data of an unbound text never equals that of a bound one.
func additionalData(prefix, id, place string) []byte {
	if prefix == UnboundPrefix {
		return []byte(id)
	}
	return []byte(prefix + id + ":" + place)
}
