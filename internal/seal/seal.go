// Package seal keeps secrets unreadable in the database: AES-256-GCM under one
// of several keys, so that keys can be rotated, and bound to the place where the
// sealed text lies, so that a copy elsewhere does not open. It stores nothing.
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

// KeyBytes is the length of a key.
const KeyBytes = 32

// Errors of Open. They never hold the text or a key.
var (
	ErrUnknownKey = errors.New("sealed with a key that is not configured")
	ErrTampered   = errors.New("the sealed text is damaged, or it was sealed for another place")
)

// Keyring seals with its first key and opens with any. Safe for concurrent use.
type Keyring struct {
	ids  []string // the newest first
	raw  []byte   // the newest key itself, for Derive
	keys map[string]cipher.AEAD
}

// New makes a keyring of keys in base64, each of KeyBytes, the newest first.
func New(encoded ...string) (*Keyring, error) {
	if len(encoded) == 0 {
		return nil, errors.New("no encryption key")
	}
	k := &Keyring{keys: map[string]cipher.AEAD{}}
	for i, e := range encoded {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(e))
		if err != nil || len(raw) != KeyBytes {
			return nil, fmt.Errorf("encryption key %d is not %d bytes in base64; make one with: openssl rand -base64 %[2]d", i+1, KeyBytes)
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

// KeyIDs names the keys, each once, the newest first: that one seals.
func (k *Keyring) KeyIDs() []string { return slices.Clone(k.ids) }

// Derive makes a key for a purpose of its own from the newest key: the same on
// all instances that have the same one, and useless for anything else.
func (k *Keyring) Derive(purpose string) []byte {
	mac := hmac.New(sha256.New, k.raw)
	_, _ = mac.Write([]byte("eventhook derived key\x00" + purpose)) // never fails
	return mac.Sum(nil)
}

// keyID names a key without telling anything about it.
func keyID(raw []byte) string {
	sum := sha256.Sum256(append([]byte("eventhook key id\x00"), raw...))
	return hex.EncodeToString(sum[:4])
}

// NewKey makes a key.
func NewKey() string {
	raw := make([]byte, KeyBytes)
	_, _ = rand.Read(raw) // never fails, see crypto/rand
	return base64.StdEncoding.EncodeToString(raw)
}

// The prefixes of sealed texts. A bound text opens at its place only.
const (
	UnboundPrefix = "enc:"
	BoundPrefix   = "enc2:"
)

// Seal returns "enc2:<key id>:<base64 of nonce and ciphertext>", bound to a
// place: Open needs the same place. Without a place it returns an unbound text,
// "enc:<key id>:<base64>", which is the format of former versions. The same text
// sealed twice differs.
func (k *Keyring) Seal(plain, place string) (string, error) {
	prefix := BoundPrefix
	if place == "" {
		prefix = UnboundPrefix
	}
	// The AEAD makes a random nonce itself and puts it first.
	id := k.ids[0]
	sealed := k.keys[id].Seal(nil, nil, []byte(plain), additional(prefix, id, place)) //nolint:gosec // nil is not a nonce here
	return prefix + id + ":" + base64.StdEncoding.EncodeToString(sealed), nil
}

// Open returns the text that was sealed, ErrUnknownKey or ErrTampered. A bound
// text is ErrTampered at another place. An unbound text opens at every place:
// the caller decides whether it still takes unbound texts.
func (k *Keyring) Open(sealed, place string) (string, error) {
	prefix, rest, ok := cutPrefix(sealed)
	id, encoded, ok2 := strings.Cut(rest, ":")
	if !ok || !ok2 {
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
	plain, err := aead.Open(nil, nil, raw, additional(prefix, id, place))
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

// additional is the additional data that GCM authenticates. That of unbound
// texts is what former versions use; it holds no ":" and so equals none of a
// bound text.
func additional(prefix, id, place string) []byte {
	if prefix == UnboundPrefix {
		return []byte(id)
	}
	return []byte(prefix + id + ":" + place)
}
