package verify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"

	"github.com/eventhook/eventhook"
)

// The work of a verification is counted in units. A unit is about 50 µs of one
// current core: a signature of Ed25519, P-256 or RSA-2048, 64 KiB hashed, or
// 16 KiB of a body parsed.
const (
	hashedUnit = 64 << 10 // bytes
	parsedUnit = 16 << 10 // bytes
	macsUnit   = 64       // HMACs of short messages
	fetchUnits = 4        // a request that may cause a document to be fetched
	rsaWork    = 4        // a signature under a key of RSA-4096
	p384Work   = 10
	p521Work   = 48
)

// The bounds of the work that one request can cause.
const (
	maxKeysUsed  = 20  // public keys of a source; more are not looked at
	maxKeyWork   = 200 // units of public-key operations
	maxKeyTries  = 4   // signatures that are tried with public keys
	maxLookups   = 64  // fields that a new source may name in signed, path and their alternatives
	maxSteps     = 16  // of a path into a body
	maxElements  = 4   // steps # of a path into a body
	maxRequired  = 20  // headers that a new source may require
	maxAlso      = 100 // headers that may carry the signature instead
	maxSignedAdd = 256 << 10
)

// viewWork is the cost of reading the body of a request as JSON or a form. A body
// with a content encoding counts as what it may be decoded to.
func viewWork(r *Request) int {
	const ratio = 1032 // of deflate, at most
	size := len(r.Body)
	if r.Header.Get("Content-Encoding") != "" {
		size = max(size, min(size*ratio, eventhook.LargestMaxBodyBytes))
	}
	return size / parsedUnit
}

// keyWork is the cost of one signature under a public key, in units.
func keyWork(k crypto.PublicKey) int {
	const (
		ordinary     = 65537 // the exponent of nearly all RSA keys
		largeFactor  = 6     // of the cost with an exponent of 31 bits
		bitsPerPower = 1024
	)
	switch k := k.(type) {
	case *rsa.PublicKey:
		size := (k.N.BitLen() + bitsPerPower - 1) / bitsPerPower
		work := max(size*size/4, 1)
		if k.E > ordinary {
			work *= largeFactor
		}
		return work
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P384():
			return p384Work
		case elliptic.P521():
			return p521Work
		}
	}
	return 1
}

// keyTries is what is left of a request's budget for public-key operations.
type keyTries int

// take reports whether the budget has room for one more signature under k.
func (t *keyTries) take(k crypto.PublicKey) bool {
	work := keyTries(keyWork(k))
	if work > *t {
		return false
	}
	*t -= work
	return true
}

// worstKeyWork is the most that signatures can cost under keys.
func worstKeyWork(keys []Key, signatures int) int {
	sum := 0
	for _, k := range keys {
		sum += keyWork(k.Public)
	}
	return min(sum*min(signatures, maxKeyTries), maxKeyWork)
}

// staticKeys are the configured keys, which have been validated: each once, and
// no more than maxKeysUsed.
func staticKeys(texts []string) []Key {
	all := distinctKeys(texts)
	return all[:min(len(all), maxKeysUsed)]
}

// distinctKeys are the keys in texts, in their order. A key that is repeated
// with the same id and algorithm counts once.
func distinctKeys(texts []string) (all []Key) {
	type name struct{ id, algorithm, public string }
	seen := map[name]bool{}
	for _, text := range texts {
		keys, _ := ParseKeys(text)
		for _, k := range keys {
			public, err := x509.MarshalPKIXPublicKey(k.Public)
			n := name{k.ID, k.Algorithm, string(public)}
			if err != nil || !seen[n] {
				seen[n] = true
				all = append(all, k)
			}
		}
	}
	return all
}
