package verify

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" // #nosec G505 -- SNS signature version 1, eBay
	"crypto/sha256"
	"fmt"
	"net/http"
	neturl "net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
)

// publicKeyScheme checks a header with a public-key signature. The public keys are
// configured, or come from a certificate whose URL the request contains. The host
// of the URL must be one of CertificateHosts.
var publicKeyScheme = scheme{
	fields: slices.Concat([]string{"header", "also_headers", "header_json", "prefix", "separator", "public_keys", "certificate_header", "certificate_hosts",
		"timestamp_header", "timestamp_unit", "tolerance_seconds", "allow_future", "claims"}, signatureFields),
	validate: validatePublicKey,
	build: func(c Config, keys Keys) Verifier {
		c = c.publicKeyDefaults()
		return newSignature(c, newKeyChecker(c, keys))
	},
	coversBody: func(c Config) bool {
		m, _ := parseMessage(c.publicKeyDefaults().Signed)
		return m.coversBody()
	},
}

func (c Config) publicKeyDefaults() Config {
	if c.Algorithm == "" {
		c.Algorithm = "ed25519"
	}
	if c.Signed == "" && c.TimestampHeader != "" {
		c.Signed = "{timestamp}{body}"
	}
	return c.signatureDefaults()
}

func validatePublicKey(c Config, f *eventhook.Faults) {
	c = c.publicKeyDefaults()
	m := validateSignature(c, f)
	validateTimestamp(c, f)
	if !m.hasBody && !m.has(crc) {
		f.Add("signed", "want a template with {body}")
	}
	if c.TimestampHeader != "" && !m.has(timestamp) && !m.has(headerList) {
		f.Add("signed", "want a template with {timestamp}: a timestamp that is not signed can be forged")
	}
	if _, ok := algorithms[c.Algorithm]; !ok {
		f.Add("algorithm", "%q, want ed25519, ecdsa_sha256, ecdsa_sha1, rsa_sha256 or rsa_sha1", c.Algorithm)
	}
	if (c.CertificateHeader == "") != (len(c.CertificateHosts) == 0) {
		f.Add("certificate_hosts", "certificate_header and certificate_hosts require each other")
	}
	if c.CertificateHeader != "" && !IsToken(c.CertificateHeader) {
		f.Add("certificate_header", "%q is not a header name", c.CertificateHeader)
	}
	if c.CertificateHeader == "" {
		validateList("public_keys", c.PublicKeys, f)
	}
	if c.HeaderJSON != "" {
		validatePath("header_json", c.HeaderJSON, f)
	}
	validatePins(c, f)
	validateKeys(c, f)
}

// validateKeys checks that the configured keys are valid and fit the algorithm.
func validateKeys(c Config, f *eventhook.Faults) {
	for i, text := range c.PublicKeys {
		keys, err := ParseKeys(text)
		if err != nil {
			f.Add(fmt.Sprintf("public_keys[%d]", i), "%s", err)
			continue
		}
		for _, k := range keys {
			if a, ok := algorithms[c.Algorithm]; ok && !a.fits(k.Public) {
				f.Add(fmt.Sprintf("public_keys[%d]", i), "is not a key for %s", c.Algorithm)
				break
			}
		}
	}
}

// algorithm is a public-key signature algorithm.
type algorithm struct {
	minSize, maxSize int // of a signature in bytes
	hash             crypto.Hash
	fits             func(crypto.PublicKey) bool
	verify           func(key crypto.PublicKey, message, digest, signature []byte) bool
}

// RSA signatures are as long as the modulus, whose size ParseKeys limits. ECDSA
// signatures are ASN.1 (RFC 3279) of variable length.
var algorithms = map[string]algorithm{
	"ed25519":      {ed25519.SignatureSize, ed25519.SignatureSize, 0, isEd25519, verifyEd25519},
	"ecdsa_sha256": {8, 150, crypto.SHA256, isECDSA, verifyECDSA},
	"ecdsa_sha1":   {8, 150, crypto.SHA1, isECDSA, verifyECDSA},
	"rsa_sha256":   {minRSABits / 8, maxRSABits / 8, crypto.SHA256, isRSA, verifyRSA(crypto.SHA256)},
	"rsa_sha1":     {minRSABits / 8, maxRSABits / 8, crypto.SHA1, isRSA, verifyRSA(crypto.SHA1)},
}

func isEd25519(k crypto.PublicKey) bool { _, ok := k.(ed25519.PublicKey); return ok }
func isECDSA(k crypto.PublicKey) bool   { _, ok := k.(*ecdsa.PublicKey); return ok }
func isRSA(k crypto.PublicKey) bool     { _, ok := k.(*rsa.PublicKey); return ok }

func verifyEd25519(key crypto.PublicKey, message, _, signature []byte) bool {
	k, ok := key.(ed25519.PublicKey)
	return ok && ed25519.Verify(k, message, signature)
}

func verifyECDSA(key crypto.PublicKey, _, digest, signature []byte) bool {
	k, ok := key.(*ecdsa.PublicKey)
	return ok && ecdsa.VerifyASN1(k, digest, signature)
}

func verifyRSA(hash crypto.Hash) func(crypto.PublicKey, []byte, []byte, []byte) bool {
	return func(key crypto.PublicKey, _, digest, signature []byte) bool {
		k, ok := key.(*rsa.PublicKey)
		return ok && rsa.VerifyPKCS1v15(k, hash, digest, signature) == nil
	}
}

// keyChecker checks signatures with public keys.
type keyChecker struct {
	algorithm
	static      []Key
	certificate *certificateRule // nil: the keys are static
	mismatch    *Error
}

func newKeyChecker(c Config, keys Keys) *keyChecker {
	k := &keyChecker{algorithm: algorithms[c.Algorithm], static: staticKeys(c.PublicKeys)}
	k.mismatch = refusef(ReasonMismatch, "no public key matched (of %d)", len(k.static))
	if c.CertificateHeader != "" {
		k.certificate = &certificateRule{header: http.CanonicalHeaderKey(c.CertificateHeader), isTrusted: matchHosts(c.CertificateHosts),
			keys: keys, static: k.static, missing: missingHeader(c.CertificateHeader)}
		k.mismatch = refusef(ReasonMismatch, "the certificate's key does not match the signature")
	}
	return k
}

func (k *keyChecker) sizes() (minSize, maxSize int) { return k.minSize, k.maxSize }

func (k *keyChecker) check(ctx context.Context, w *workspace, r *Request) (Match, *Error) {
	keys := k.static
	if k.certificate != nil {
		var err *Error
		if keys, err = k.certificate.find(ctx, r); err != nil {
			return Match{}, err
		}
	}
	message := append(w.whole[:0], w.before...)
	if w.hasBody {
		message = append(message, r.Body...)
	}
	message = append(message, w.after...)
	if cap(message) <= maxReusedBytes {
		w.whole = message
	}
	number := k.find(keys, message, w.candidates)
	switch {
	case number == 0:
		return Match{}, k.mismatch
	case k.certificate != nil:
		return Match{}, nil
	}
	return Match{number, len(keys)}, nil
}

// signature signs with key, or returns ErrPrivateKey if key is nil.
func (k *keyChecker) signature(w *workspace, r *Request, key crypto.Signer) ([]byte, error) {
	if key == nil {
		return nil, ErrPrivateKey
	}
	return k.sign(key, w.message(r))
}

// sign signs a message with a key of this algorithm.
func (a algorithm) sign(key crypto.Signer, message []byte) ([]byte, error) {
	if !a.fits(key.Public()) {
		return nil, errOtherKey
	}
	digest := digestOf(a.hash, message)
	if a.hash == 0 {
		digest = message
	}
	return key.Sign(rand.Reader, digest, a.hash)
}

var errOtherKey = &Error{ReasonKey, "the private key is for another algorithm"}

// find returns the number, from 1, of a key for which a signature is valid, or 0 if there is none.
// It stops when the budget for public-key operations is exhausted.
func (k *keyChecker) find(keys []Key, message []byte, candidates [][]byte) int {
	digest, tries := digestOf(k.hash, message), keyTries(maxKeyWork)
	for _, candidate := range candidates[:min(len(candidates), maxKeyTries)] {
		for i := range keys {
			if !k.fits(keys[i].Public) {
				continue
			}
			if !tries.take(keys[i].Public) {
				return 0
			}
			if k.verify(keys[i].Public, message, digest, candidate) {
				return i + 1
			}
		}
	}
	return 0
}

func (k *keyChecker) work(bodySize, signatures int) int {
	hashing := bodySize / hashedUnit
	if k.certificate != nil && len(k.static) == 0 {
		return fetchUnits + min(signatures, maxKeyTries)*rsaWork + hashing
	}
	return worstKeyWork(k.static, signatures) + hashing
}

func digestOf(hash crypto.Hash, message []byte) []byte {
	switch hash {
	case crypto.SHA256:
		sum := sha256.Sum256(message)
		return sum[:]
	case crypto.SHA1:
		sum := sha1.Sum(message) // #nosec G401 -- the sender's choice
		return sum[:]
	default: // Ed25519 hashes on its own
		return nil
	}
}

// certificateRule fetches the certificate at the URL in a request.
type certificateRule struct {
	header    string
	isTrusted func(host, path string) bool
	keys      Keys  // nil: certificates cannot be fetched
	static    []Key // if not empty, used instead of the certificate; the URL is still checked
	missing   *Error
}

var (
	errForeignHost   = &Error{ReasonKey, "the certificate's URL is not a URL of the provider"}
	errNotFetched    = &Error{ReasonKey, "published keys are not fetched here: configure the public key"}
	errNoDocument    = &Error{ReasonKey, "there is no certificate at the URL"}
	errUnavailable   = &Error{ReasonUnavailable, "the key cannot be fetched now"}
	errNotValidAtAll = &Error{ReasonKey, "the certificate was not valid at the time of receipt"}
)

func (c *certificateRule) find(ctx context.Context, r *Request) ([]Key, *Error) {
	values := r.Header[c.header]
	if len(values) != 1 {
		return nil, c.missing
	}
	return c.at(ctx, values[0], r.At)
}

// at returns the key of the certificate at a URL, if the URL is trusted.
func (c *certificateRule) at(ctx context.Context, rawURL string, receipt time.Time) ([]Key, *Error) {
	u, err := neturl.Parse(rawURL)
	if err != nil || !isPlain(u) || !c.isTrusted(strings.ToLower(u.Host), u.Path) {
		return nil, errForeignHost
	}
	u.Host = strings.ToLower(u.Host) // so that a certificate is cached under one URL
	if len(c.static) > 0 {
		return c.static, nil
	}
	if c.keys == nil {
		return nil, errNotFetched
	}
	keys, err := c.keys.Keys(ctx, u.String(), "")
	switch {
	case eventhook.KindOf(err) == eventhook.KindNotFound || eventhook.KindOf(err) == eventhook.KindInvalid:
		return nil, errNoDocument // the sender chose the URL: this is not a temporary failure
	case err != nil:
		return nil, errUnavailable // Keys logs the cause
	}
	for _, k := range keys {
		if !k.NotAfter.IsZero() && (receipt.After(k.NotAfter) || receipt.Before(k.NotBefore)) {
			return nil, errNotValidAtAll
		}
	}
	return keys, nil
}

// isPlain reports whether a URL is an https URL with only a host and a clean path.
func isPlain(u *neturl.URL) bool {
	return u.Scheme == "https" && u.User == nil && u.Port() == "" && u.RawQuery == "" && !u.ForceQuery && u.Fragment == "" &&
		u.RawPath == "" && u.Opaque == "" && path.Clean(u.Path) == u.Path
}

// matchHosts returns a function that reports whether a URL's host and path match
// an entry of list; see Config.CertificateHosts.
func matchHosts(list []string) func(host, path string) bool {
	list = slices.Clone(list)
	return func(host, path string) bool {
		for _, place := range list {
			wanted, prefix, _ := strings.Cut(place, "/")
			below, isWild := strings.CutPrefix(wanted, "*")
			isHost := host == wanted || isWild && strings.HasSuffix(host, below) && len(host) > len(below)
			if isHost && strings.HasPrefix(path, "/"+prefix) && len(path) > len("/"+prefix) {
				return true
			}
		}
		return false
	}
}
