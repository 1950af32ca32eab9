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

// signer signs what one subscription gets: by Standard Webhooks 1.0, and with
// the plain signature of X-Eventhook-Signature. Safe for concurrent use.
type signer struct {
	keys    []signingKey       // the current one first
	private ed25519.PrivateKey // nil unless it signs, too
	text    *keyed             // of the plain signature; nil without a secret
}

// signingKey signs until a moment, nil for always; the current one always does.
type signingKey struct {
	*keyed
	until *time.Time
}

func newSigner(s *eventhook.Subscription) signer {
	signatures := s.Signatures
	if len(signatures) == 0 {
		signatures = []string{eventhook.SignatureHMAC}
	}
	var of signer
	if slices.Contains(signatures, eventhook.SignatureHMAC) {
		for _, one := range s.Signing {
			of.keys = append(of.keys, signingKey{newKeyed(eventhook.SigningKey(one.Secret)), one.ExpiresAt})
		}
	}
	if slices.Contains(signatures, eventhook.SignatureEd25519) {
		of.private = eventhook.Ed25519Key(s.Ed25519Seed)
	}
	if len(s.Signing) > 0 {
		of.text = newKeyed([]byte(s.Signing[0].Secret.Reveal()))
	}
	return of
}

// isAble reports whether it can sign as the subscription says.
func (s signer) isAble() bool { return s.text != nil && len(s.keys)+len(s.private) > 0 }

// standard is the value of webhook-signature: a list of signatures, of each
// secret that has not expired, over id, timestamp and body.
func (s signer) standard(id string, at time.Time, body []byte) string {
	var room [256]byte
	before := append(append(room[:0], id...), '.')
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

func separated(b []byte) []byte {
	if len(b) == 0 {
		return b
	}
	return append(b, ' ')
}

// plain is the value of X-Eventhook-Signature: over the body, keyed with the
// text of the current secret.
func (s signer) plain(body []byte) string {
	const prefix = "sha256="
	var room [len(prefix) + 2*sha256.Size]byte
	return string(hex.AppendEncode(append(room[:0], prefix...), s.text.sum(nil, body)))
}

// keyed is an HMAC with its key. Keying one costs about as much as it takes to
// hash half of a short body, so it is kept for the next message.
type keyed struct {
	key   []byte
	spare atomic.Pointer[summing] // nil while it is in use
}

type summing struct {
	hash.Hash
	result [sha256.Size]byte
}

func newKeyed(key []byte) *keyed { return &keyed{key: key} }

// sum is the HMAC of all parts.
func (k *keyed) sum(parts ...[]byte) []byte {
	h := k.spare.Swap(nil)
	if h == nil {
		h = &summing{Hash: hmac.New(sha256.New, k.key)}
	}
	h.Reset()
	for _, part := range parts {
		_, _ = h.Write(part) // never fails, see hash.Hash
	}
	sum := [sha256.Size]byte(h.Sum(h.result[:0]))
	k.spare.Store(h)
	return sum[:]
}
