// Package seal keeps secrets unreadable in the database: AES-256-GCM under one
// of several keys, so that keys can be rotated. It stores nothing.
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
	ErrTampered   = errors.New("the sealed text is damaged")
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

// Seal returns "enc:<key id>:<base64 of nonce and ciphertext>"; the same text
// sealed twice differs.
func (k *Keyring) Seal(plain string) (string, error) {
	// The AEAD makes a random nonce itself and puts it first.
	id := k.ids[0]
	sealed := k.keys[id].Seal(nil, nil, []byte(plain), []byte(id)) //nolint:gosec // nil is not a nonce here
	return "enc:" + id + ":" + base64.StdEncoding.EncodeToString(sealed), nil
}

// Open returns what was sealed, ErrUnknownKey or ErrTampered.
func (k *Keyring) Open(sealed string) (string, error) {
	rest, ok := strings.CutPrefix(sealed, "enc:")
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
	plain, err := aead.Open(nil, nil, raw, []byte(id))
	if err != nil {
		return "", ErrTampered
	}
	return string(plain), nil
}
