package verify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"

	"github.com/eventhook/eventhook"
)

// CPU costs are measured in units. A unit is about 50 µs of a current core: one
// Ed25519, P-256 or RSA-2048 signature, 64 KiB hashed, or 16 KiB of a body parsed.
const (
	hashedUnit = 64 << 10 // bytes hashed in one unit
	parsedUnit = 16 << 10 // bytes parsed in one unit
	macsUnit   = 64       // HMACs of short messages in one unit
	fetchUnits = 4        // units of a request that can cause a document to be fetched
	rsaWork    = 4        // units of a signature with an RSA-4096 key
	p384Work   = 10
	p521Work   = 48
)

// Limits of the CPU time that one request can use.
const (
	maxKeysUsed        = 20        // public keys of a source; further keys are ignored
	maxKeyWork         = 200       // units of public-key operations
	maxKeyTries        = 4         // signatures of a request that are checked with public keys
	maxLookups         = 64        // placeholders and fields of a new source in signed, path and claims, with alternatives
	maxSteps           = 16        // of a path into the body
	maxElements        = 4         // # steps of a path into the body
	maxRequiredHeaders = 20        // required headers of a new source
	maxAlsoHeaders     = 100       // alternative headers for the signature
	maxExtraSigned     = 256 << 10 // bytes of the signed text besides a copy of the body
)

// viewWork returns the cost of parsing the request's body as JSON or a form. A
// body with a content encoding counts with the largest size of its decoded form.
func viewWork(r *Request) int {
	const ratio = 1032 // the highest compression ratio of deflate
	size := len(r.Body)
	if r.Header.Get("Content-Encoding") != "" {
		size = max(size, min(size*ratio, eventhook.LargestMaxBodyBytes))
	}
	return size / parsedUnit
}

// keyWork returns the cost of checking one signature with a public key.
func keyWork(k crypto.PublicKey) int {
	const (
		ordinary     = 65537 // the exponent of almost all RSA keys
		largeFactor  = 6     // how much more a 31-bit exponent costs
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

// keyTries is the remaining budget of a request for public-key operations, in units.
type keyTries int

// take subtracts the cost of one signature with k from the budget. It returns
// false, and takes nothing, if the remaining budget is too small.
func (t *keyTries) take(k crypto.PublicKey) bool {
	work := keyTries(keyWork(k))
	if work > *t {
		return false
	}
	*t -= work
	return true
}

// worstKeyWork returns the highest cost of checking the signatures with the keys.
func worstKeyWork(keys []Key, signatures int) int {
	sum := 0
	for _, k := range keys {
		sum += keyWork(k.Public)
	}
	return min(sum*min(signatures, maxKeyTries), maxKeyWork)
}

// staticKeys returns the first maxKeysUsed distinct keys of a valid Config.
func staticKeys(texts []string) []Key {
	all := distinctKeys(texts)
	return all[:min(len(all), maxKeysUsed)]
}

// distinctKeys returns the keys in texts in their order. Keys with the same id,
// algorithm and value are returned once.
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
