package send

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/eventhook/eventhook"
)

// signer computes two headers for the messages of one subscription:
// webhook-signature (Standard Webhooks 1.0), and X-Eventhook-Signature, an HMAC of
// the body. It is safe for concurrent use.
type signer struct {
	keys    []signingKey       // the current one first
	private ed25519.PrivateKey // nil: no Ed25519 signature
	body    *keyedHMAC         // of the body signature; nil without a secret
}

// signingKey is an HMAC key that signs until a time; nil means no limit. The first
// key of a signer ignores until.
type signingKey struct {
	*keyedHMAC
	until *time.Time
}

func newSigner(s *eventhook.Subscription) signer {
	signatures := s.Signatures
	if len(signatures) == 0 {
		signatures = []string{eventhook.SignatureHMAC}
	}
	var result signer
	if slices.Contains(signatures, eventhook.SignatureHMAC) {
		for _, one := range s.Signing {
			result.keys = append(result.keys, signingKey{newKeyedHMAC(eventhook.SigningKey(one.Secret)), one.ExpiresAt})
		}
	}
	if slices.Contains(signatures, eventhook.SignatureEd25519) {
		result.private = eventhook.Ed25519Key(s.Ed25519Seed)
	}
	if len(s.Signing) > 0 {
		result.body = newKeyedHMAC([]byte(s.Signing[0].Secret.Reveal()))
	}
	return result
}

// canSign reports whether the signer has the keys for the signatures of the subscription.
func (s signer) canSign() bool { return s.body != nil && len(s.keys)+len(s.private) > 0 }

// standardSignature returns the value of webhook-signature, signatures over id,
// timestamp and body separated by spaces: an HMAC with the current secret and with
// each previous secret that has not expired, then the Ed25519 signature if there is
// a key.
func (s signer) standardSignature(id string, at time.Time, body []byte) string {
	var buffer [256]byte
	before := append(append(buffer[:0], id...), '.')
	before = append(strconv.AppendInt(before, at.Unix(), 10), '.')
	var list [512]byte
	b := list[:0]
	for i, key := range s.keys {
		if i == 0 || key.until == nil || at.Before(*key.until) {
			b = append(separated(b), eventhook.SignatureHMAC+","...)
			b = base64.StdEncoding.AppendEncode(b, key.sum(before, body))
		}
	}
	if s.private != nil {
		b = append(separated(b), eventhook.SignatureEd25519+","...)
		b = base64.StdEncoding.AppendEncode(b, ed25519.Sign(s.private, append(before, body...)))
	}
	return string(b)
}

// separated appends a space to b, unless b is empty.
func separated(b []byte) []byte {
	if len(b) == 0 {
		return b
	}
	return append(b, ' ')
}

// bodySignature returns the value of X-Eventhook-Signature: an HMAC of the body with the
// text of the current secret as key.
func (s signer) bodySignature(body []byte) string {
	const prefix = "sha256="
	var buffer [len(prefix) + 2*sha256.Size]byte
	return string(hex.AppendEncode(append(buffer[:0], prefix...), s.body.sum(nil, body)))
}

// keyedHMAC computes HMACs with one key. Preparing the key costs about as much as hashing
// half of a short body, so the prepared hash is reused for the next message.
type keyedHMAC struct {
	key   []byte
	spare atomic.Pointer[preparedHash] // nil while it is in use
}

type preparedHash struct {
	hash.Hash
	result [sha256.Size]byte
}

func newKeyedHMAC(key []byte) *keyedHMAC { return &keyedHMAC{key: key} }

// sum returns the HMAC of the concatenated parts.
func (k *keyedHMAC) sum(parts ...[]byte) []byte {
	h := k.spare.Swap(nil)
	if h == nil {
		h = &preparedHash{Hash: hmac.New(sha256.New, k.key)}
	}
	h.Reset()
	for _, part := range parts {
		_, _ = h.Write(part) // never fails, see hash.Hash
	}
	sum := [sha256.Size]byte(h.Sum(h.result[:0]))
	k.spare.Store(h)
	return sum[:]
}
