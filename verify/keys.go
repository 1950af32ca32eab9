package verify

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Key is a public key with its metadata. Keys are shared: do not modify the value
// that Public points to.
type Key struct {
	ID        string           // kid of a JWK, "" if it has none
	Algorithm string           // alg of a JWK, "" if it has none
	Public    crypto.PublicKey // *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
	NotBefore time.Time        // of a certificate; zero: no bound
	NotAfter  time.Time        // of a certificate; zero: no bound
}

// Keys fetches the public keys that a document on the web publishes.
type Keys interface {
	// Keys returns all keys of the document at url, at least one. The document
	// can have any form that ParseKeys reads. id is the requested key id (kid),
	// "" for any: if a cached document does not contain it, the document can be
	// fetched again. The slice is shared: do not modify it. Keys returns when
	// ctx ends. It is safe for concurrent use.
	Keys(ctx context.Context, url, id string) ([]Key, error)
}

// Limits of ParseKeys. RSA keys below 2048 bits are not secure; keys above 4096
// bits are expensive to use, and no provider has one.
const (
	maxKeysText = 256 << 10
	maxKeys     = 100
	minRSABits  = 2048
	maxRSABits  = 4096
)

var (
	errKeyForm = errors.New("not a public key in a known form: want PEM (PUBLIC KEY, RSA PUBLIC KEY or CERTIFICATE), " +
		"a JWK, a JWK Set, base64 of a DER SubjectPublicKeyInfo, or an Ed25519 key as 64 hex digits or whpk_ and base64")
	errKeyKind    = errors.New("not a public key for signatures: want RSA, ECDSA on P-256, P-384 or P-521, or Ed25519")
	errKeyPrivate = errors.New("a private key: want only the public key that belongs to it")
	errKeyUse     = errors.New("a key that is not meant to verify signatures (use or key_ops)")
	errKeyWeak    = errors.New("an Ed25519 key of small order, for which anyone can forge signatures")
	errKeysMany   = fmt.Errorf("more than %d keys", maxKeys)
	errKeysNone   = errors.New("a JWK Set without a key that can be used to verify signatures")
)

// ParseKeys reads public keys in the forms that providers publish them in:
//
//   - PEM: any number of PUBLIC KEY and RSA PUBLIC KEY blocks, and
//     CERTIFICATE blocks. The first certificate is the signer's; the others,
//     its chain, are skipped. The issuer is not verified.
//   - a JWK, or a JWK Set, in which unsupported keys and keys that are not for
//     signatures are skipped
//   - standard base64 of a DER SubjectPublicKeyInfo
//   - an Ed25519 key as 64 hex digits, or as whpk_ or whpk1_ and base64
//
// RSA keys must have 2048 to 4096 bits; ECDSA keys must be on P-256, P-384 or
// P-521. A text with a private key is an error, and a symmetric key is never used
// as a public key.
//
// If the error is nil, ParseKeys returns 1 to 100 keys. The text is limited to
// 256 KiB. No error contains a part of the text.
func ParseKeys(text string) ([]Key, error) {
	if len(text) > maxKeysText {
		return nil, fmt.Errorf("%d bytes of keys, want at most %d", len(text), maxKeysText)
	}
	text = strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(text, "{"):
		return parseJWKs([]byte(text))
	case strings.Contains(text, pemBegin):
		return parsePEM(text)
	}
	key, err := parseBareKey(text)
	if err != nil {
		return nil, err
	}
	return []Key{key}, nil
}

const pemBegin = "-----BEGIN "

func parsePEM(text string) ([]Key, error) {
	blocks := strings.Count(text, pemBegin)
	if blocks > maxKeys {
		return nil, errKeysMany
	}
	var keys []Key
	signer := false // the signer's certificate was found
	rest := []byte(text)
	for range blocks {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			return nil, errKeyForm // pem.Decode skips malformed blocks
		}
		if block.Type == "CERTIFICATE" && signer {
			continue
		}
		signer = signer || block.Type == "CERTIFICATE"
		key, err := parseBlock(block)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func parseBlock(block *pem.Block) (Key, error) {
	switch {
	case block.Type == "PUBLIC KEY":
		return parseSPKI(block.Bytes)
	case block.Type == "RSA PUBLIC KEY":
		public, err := x509.ParsePKCS1PublicKey(block.Bytes)
		if err != nil {
			return Key{}, errKeyForm
		}
		return newKey(public)
	case block.Type == "CERTIFICATE":
		return parseCertificate(block.Bytes)
	case strings.HasSuffix(block.Type, "PRIVATE KEY"):
		return Key{}, errKeyPrivate
	}
	return Key{}, errKeyForm
}

func parseSPKI(der []byte) (Key, error) {
	public, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return Key{}, errKeyForm
	}
	return newKey(public)
}

func parseCertificate(der []byte) (Key, error) {
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return Key{}, errKeyForm
	}
	key, err := newKey(certificate.PublicKey)
	key.NotBefore, key.NotAfter = certificate.NotBefore, certificate.NotAfter
	return key, err
}

// parseBareKey parses the forms that contain one key and nothing else.
func parseBareKey(text string) (Key, error) {
	encoding := base64.StdEncoding.Strict()
	for _, prefix := range []string{"whpk_", "whpk1_"} {
		if encoded, ok := strings.CutPrefix(text, prefix); ok {
			raw, err := encoding.DecodeString(encoded)
			return ed25519Key(raw, err)
		}
	}
	if len(text) == hex.EncodedLen(ed25519.PublicKeySize) {
		if raw, err := hex.DecodeString(text); err == nil {
			return ed25519Key(raw, nil)
		}
	}
	der, err := encoding.DecodeString(text)
	if err != nil {
		return Key{}, errKeyForm
	}
	return parseSPKI(der)
}

func ed25519Key(raw []byte, err error) (Key, error) {
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return Key{}, errKeyForm
	}
	return newKey(ed25519.PublicKey(raw))
}

func parseJWKs(text []byte) ([]Key, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, errKeyForm
	}
	switch {
	case set.Keys == nil: // a single JWK
		key, err := parseJWK(text)
		if err != nil {
			return nil, err
		}
		return []Key{key}, nil
	case len(set.Keys) > maxKeys:
		return nil, errKeysMany
	}
	var keys []Key
	for _, one := range set.Keys {
		key, err := parseJWK(one)
		switch {
		case err == nil:
			keys = append(keys, key)
		case errors.Is(err, errKeyPrivate):
			return nil, err
		}
	}
	if len(keys) == 0 {
		return nil, errKeysNone
	}
	return keys, nil
}

// privateMembers are the members of private JWKs (RFC 7518, sections 6.2.2 and
// 6.3.2; RFC 8037, section 2; RFC 9964). Symmetric keys do not have them; newKey
// refuses symmetric keys.
var privateMembers = []string{"d", "p", "q", "dp", "dq", "qi", "oth", "priv"}

func parseJWK(text []byte) (Key, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return Key{}, errKeyForm
	}
	for _, name := range privateMembers {
		if _, found := members[name]; found {
			return Key{}, errKeyPrivate
		}
	}
	var jwk jose.JSONWebKey
	if err := jwk.UnmarshalJSON(text); err != nil {
		return Key{}, errKeyForm
	}
	if jwk.Use != "" && jwk.Use != "sig" || !mayVerify(members["key_ops"]) {
		return Key{}, errKeyUse
	}
	key, err := newKey(jwk.Key)
	key.ID, key.Algorithm = jwk.KeyID, jwk.Algorithm
	return key, err
}

// mayVerify reports whether the key_ops of a JWK permit verification. An absent
// key_ops permits it.
func mayVerify(text json.RawMessage) bool {
	if text == nil {
		return true
	}
	var operations []string
	err := json.Unmarshal(text, &operations)
	return err == nil && slices.Contains(operations, "verify")
}

// newKey checks that public is a supported and secure public key.
func newKey(public any) (Key, error) {
	var err error
	switch k := public.(type) {
	case *rsa.PublicKey:
		err = checkRSA(k)
	case *ecdsa.PublicKey:
		err = checkECDSA(k)
	case ed25519.PublicKey:
		err = checkEd25519(k)
	default:
		err = errKeyKind
	}
	if err != nil {
		return Key{}, err
	}
	return Key{Public: public}, nil
}

// checkRSA refuses keys that are too small or too large, and keys that
// crypto/rsa cannot use.
func checkRSA(k *rsa.PublicKey) error {
	bits := k.N.BitLen()
	if bits < minRSABits || bits > maxRSABits {
		return fmt.Errorf("an RSA key of %d bits, want %d to %d", bits, minRSABits, maxRSABits)
	}
	if k.N.Bit(0) == 0 || k.E < 3 || k.E > math.MaxInt32 || k.E%2 == 0 {
		return errKeyForm
	}
	return nil
}

func checkECDSA(k *ecdsa.PublicKey) error {
	switch k.Curve {
	case elliptic.P256(), elliptic.P384(), elliptic.P521():
	default:
		return errKeyKind
	}
	if _, err := k.ECDH(); err != nil {
		return errKeyForm // not on its curve
	}
	return nil
}

// checkEd25519 refuses points of small order, such as an all-zero key from an
// incomplete configuration: signatures with them prove nothing. go-jose refuses to
// marshal these points.
func checkEd25519(k ed25519.PublicKey) error {
	if _, err := (jose.JSONWebKey{Key: k}).MarshalJSON(); err != nil {
		return errKeyWeak
	}
	return nil
}
