package verify

import (
	"bytes"
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/sha1" // #nosec G505 -- HMAC-SHA1 is not broken, and some providers support nothing newer
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/eventhook/eventhook"
)

// hashOf returns nil for an unknown algorithm.
func hashOf(algorithm string) func() hash.Hash {
	switch algorithm {
	case "sha1":
		return sha1.New
	case "", "sha256":
		return sha256.New
	case "sha512":
		return sha512.New
	}
	return nil
}

// macChecker checks whether one of the signatures of a request is the MAC of its
// message with one of the secrets. Keying an HMAC costs as much as hashing a short
// body, so keyed HMACs are reused by the next request.
type macChecker struct {
	newHash   func() hash.Hash
	size      int
	keys      [][]byte
	plain     bool // hash key and message instead of an HMAC
	perHeader bool // key i is checked against header i only
	mismatch  *Error
	spare     atomic.Pointer[keyedMACs] // nil while they are in use
}

// keyedMACs are keyed hashes, one per secret.
type keyedMACs []hash.Hash

func newMACChecker(c Config) *macChecker {
	newHash := hashOf(c.Algorithm)
	m := &macChecker{newHash: newHash, size: newHash().Size(), perHeader: c.HeaderPerSecret,
		mismatch: refusef(ReasonMismatch, "no secret matched (of %d)", len(c.Secrets))}
	m.keys = decodedSecrets(c, !m.perHeader)
	return m
}

// decodedSecrets returns the keys of a valid Config's secrets. If distinct,
// repeated keys are returned once.
func decodedSecrets(c Config, distinct bool) (keys [][]byte) {
	for _, s := range c.Secrets {
		key, _ := decodeSecret(c.SecretEncoding, s)
		isSame := func(other []byte) bool { return bytes.Equal(key, other) } // not timing-sensitive: this runs at load, not per request
		if !distinct || !slices.ContainsFunc(keys, isSame) {
			keys = append(keys, key)
		}
	}
	return keys
}

func (m *macChecker) work(bodySize, _ int) int {
	return len(m.keys) * bodySize / hashedUnit
}

func (m *macChecker) sizes() (minSize, maxSize int) { return m.size, m.size }

// take returns the keyed hashes of the previous verification, or new ones if
// another verification is using them.
func (m *macChecker) take() *keyedMACs {
	if spare := m.spare.Swap(nil); spare != nil {
		return spare
	}
	fresh := make(keyedMACs, len(m.keys))
	for i, key := range m.keys {
		if fresh[i] = m.newHash(); !m.plain {
			fresh[i] = hmac.New(m.newHash, key)
		}
	}
	return &fresh
}

// check compares every candidate with every secret, so that its duration does not
// reveal which one was close.
func (m *macChecker) check(_ context.Context, w *workspace, r *Request) (Match, *Error) {
	keyed, number := m.take(), 0
	defer m.spare.Store(keyed)
	for k, mac := range *keyed {
		m.sum(mac, k, w, r)
		for i, candidate := range w.candidates {
			if m.perHeader && w.headerIndexes[i] != k {
				continue
			}
			number = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(w.sum, candidate), k+1, number)
		}
	}
	if number == 0 {
		return Match{}, m.mismatch
	}
	return Match{number, len(m.keys)}, nil
}

// sum writes the MAC of the message with key k to w.sum. mac is keyed with key k.
func (m *macChecker) sum(mac hash.Hash, k int, w *workspace, r *Request) {
	mac.Reset()
	if m.plain {
		_, _ = mac.Write(m.keys[k])
	}
	w.writeMessage(mac, r)
	w.sum = mac.Sum(w.sum[:0])
}

// signature returns the MAC with the first secret.
func (m *macChecker) signature(w *workspace, r *Request, _ crypto.Signer) ([]byte, error) {
	keyed := m.take()
	defer m.spare.Store(keyed)
	m.sum((*keyed)[0], 0, w, r)
	return bytes.Clone(w.sum), nil
}

var errSecretEncoding = errors.New("cannot be decoded")

// decodeSecret decodes a configured secret into a key. Base64 can have the prefix
// whsec_ of Standard Webhooks, and can omit the padding.
func decodeSecret(encoding, secret string) (key []byte, err error) {
	switch encoding {
	case "", "text":
		key = []byte(secret)
	case "base64":
		text := strings.TrimRight(strings.TrimPrefix(secret, "whsec_"), "=")
		key, err = base64.RawStdEncoding.DecodeString(text)
	case "hex":
		key, err = hex.DecodeString(secret)
	case "sha1": // Braintree keys its HMAC with the hash of the private key
		sum := sha1.Sum([]byte(secret)) // #nosec G401 -- the provider's choice
		key = sum[:]
	}
	if err != nil || len(key) == 0 {
		return nil, errSecretEncoding // the cause can contain the secret
	}
	return key, nil
}

// validateMAC checks the fields that all schemes with secrets share.
func validateMAC(c Config, f *eventhook.Faults) message {
	m := validateSignature(c, f)
	if hashOf(c.Algorithm) == nil {
		f.Add("algorithm", "%q, want sha1, sha256 or sha512", c.Algorithm)
	}
	validateSecrets(c, f)
	return m
}

func validateSecrets(c Config, f *eventhook.Faults) {
	validateChoice("secret_encoding", c.SecretEncoding, f, "text", "base64", "hex", "sha1")
	validateList("secrets", c.Secrets, f)
	for i, s := range c.Secrets {
		if _, err := decodeSecret(c.SecretEncoding, s); err != nil && s != "" {
			f.Add(fmt.Sprintf("secrets[%d]", i), "is not %s, which secret_encoding requires", c.SecretEncoding)
		}
	}
	if c.HeaderPerSecret && len(c.Secrets) > 1+len(c.AlsoHeaders) {
		f.Add("secrets", "%d secrets, but only %d headers", len(c.Secrets), 1+len(c.AlsoHeaders))
	}
}
