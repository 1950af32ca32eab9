package verify

import (
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"net/http"
	neturl "net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook"
)

// jwtScheme checks a header with a JSON Web Token (RFC 7519). The token is signed
// with a secret, or with a private key whose public key is configured or in a key
// set on the web. Only the configured algorithm is accepted; the algorithm in the
// token's header does not select anything.
var jwtScheme = scheme{
	fields: []string{"header", "prefix", "algorithm", "secrets", "secret_encoding", "public_keys", "jwks_url", "issuers", "audience", "claims",
		"body_hash_claim", "body_hash_encoding", "tolerance_seconds"},
	validate: validateJWT,
	build:    newJWT,
	secretHeaders: func(c Config) []string {
		return []string{http.CanonicalHeaderKey(c.jwtDefaults().Header)}
	},
	coversBody: func(c Config) bool { return c.BodyHashClaim != "" },
}

// jwtAlgorithms maps the supported algorithms to a check of their keys. The
// algorithm "none" is not supported.
var jwtAlgorithms = map[string]func(crypto.PublicKey) bool{
	"HS256": nil, "HS384": nil, "HS512": nil, // with secrets
	"RS256": isRSA, "RS384": isRSA, "RS512": isRSA, "PS256": isRSA, "PS384": isRSA, "PS512": isRSA,
	"ES256": isECDSA, "ES384": isECDSA, "ES512": isECDSA, "EdDSA": isEd25519,
}

var jwtHashes = map[string]func() hash.Hash{"HS256": sha256.New, "HS384": sha512.New384, "HS512": sha512.New}

func (c Config) jwtDefaults() Config {
	if c.Header == "" {
		c.Header = "Authorization"
		if c.Prefix == "" {
			c.Prefix = "Bearer "
		}
	}
	if c.Algorithm == "" {
		c.Algorithm = "RS256"
	}
	return c
}

func validateJWT(c Config, f *eventhook.Faults) {
	c = c.jwtDefaults()
	validateHeader(c.Header, f)
	fits, known := jwtAlgorithms[c.Algorithm]
	switch {
	case !known:
		f.Add("algorithm", "%q, want HS256, RS256, PS256, ES256 (or their 384 and 512), or EdDSA", c.Algorithm)
	case fits == nil:
		validateSecrets(c, f)
		if len(c.PublicKeys) > 0 || c.KeySetURL != "" {
			f.Add("public_keys", "not used with %s, which is keyed with secrets", c.Algorithm)
		}
	default:
		validateJWTKeys(c, fits, f)
	}
	if u, err := neturl.Parse(c.KeySetURL); c.KeySetURL != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		f.Add("jwks_url", "want an https URL")
	}
	if c.ToleranceSeconds != nil && (*c.ToleranceSeconds < 0 || *c.ToleranceSeconds > maxTolerance) {
		f.Add("tolerance_seconds", "%d, want 0 (the age is not checked) to %d", *c.ToleranceSeconds, maxTolerance)
	}
	validateChoice("body_hash_encoding", c.BodyHashEncoding, f, "hex", "base64", "base64url")
	if c.BodyHashEncoding != "" && c.BodyHashClaim == "" {
		f.Add("body_hash_encoding", "requires body_hash_claim")
	}
	for name, value := range c.Claims {
		if name == "" || value == "" {
			f.Add("claims", "want a name and a value for each claim")
		}
	}
}

func validateJWTKeys(c Config, fits func(crypto.PublicKey) bool, f *eventhook.Faults) {
	if len(c.Secrets) > 0 {
		f.Add("secrets", "not used with %s, which is keyed with public keys", c.Algorithm)
	}
	if len(c.PublicKeys) == 0 && c.KeySetURL == "" {
		f.Add("public_keys", "missing, want at least one public key or a jwks_url")
	}
	for i, text := range c.PublicKeys {
		keys, err := ParseKeys(text)
		if err != nil {
			f.Add(fmt.Sprintf("public_keys[%d]", i), "%s", err)
		}
		for _, k := range keys {
			if !fits(k.Public) {
				f.Add(fmt.Sprintf("public_keys[%d]", i), "is not a key for %s", c.Algorithm)
				break
			}
		}
	}
}

type jwtVerifier struct {
	header, prefix string
	algorithm      jose.SignatureAlgorithm
	fits           func(crypto.PublicKey) bool
	secrets        [][]byte
	static         []Key
	keySetURL      string
	keys           Keys
	issuers        []string
	audience       string
	claims         map[string]string
	bodyHash       string
	check          func(*jose.JSONWebSignature, crypto.PublicKey) ([]byte, error)
	bodyHashIn     encoding
	maxAge         time.Duration // 0: the age is not checked
	wantsIssuedAt  bool          // a token without iat is refused

	missing, prefixErr *Error
}

func newJWT(c Config, keys Keys) Verifier {
	c = c.jwtDefaults()
	v := &jwtVerifier{
		header: http.CanonicalHeaderKey(c.Header), prefix: c.Prefix, algorithm: jose.SignatureAlgorithm(c.Algorithm), fits: jwtAlgorithms[c.Algorithm],
		static: staticKeys(c.PublicKeys), keySetURL: c.KeySetURL, keys: keys, issuers: append([]string(nil), c.Issuers...), audience: c.Audience,
		claims: map[string]string{}, bodyHash: c.BodyHashClaim, bodyHashIn: encodings[c.BodyHashEncoding], check: checkWithKey,
		maxAge:    DefaultTolerance * time.Second,
		missing:   missingHeader(c.Header),
		prefixErr: refusef(ReasonPrefix, "%s does not begin with %s", c.Header, trim(c.Prefix)),
	}
	v.secrets = decodedSecrets(c, true)
	for name, value := range c.Claims {
		v.claims[name] = value
	}
	if c.ToleranceSeconds != nil {
		v.maxAge = time.Duration(*c.ToleranceSeconds) * time.Second
		v.wantsIssuedAt = v.maxAge > 0
	}
	return v
}

var (
	errTokenTwice  = &Error{ReasonMalformed, "the header is sent more than once"}
	errTokenShape  = &Error{ReasonEncoding, "the token is not a JWT of the expected algorithm"}
	errTokenClaims = &Error{ReasonMalformed, "the token's claims cannot be read"}
	errNoKey       = &Error{ReasonKey, "no key with the token's key id"}
	errNoExpiry    = &Error{ReasonToken, "the token has no expiry (exp)"}
	errIssuer      = &Error{ReasonToken, "the token is from another issuer"}
	errAudience    = &Error{ReasonToken, "the token is for another audience"}
)

// maxToken is the maximum size of a token in bytes.
const maxToken = 16 << 10

func (v *jwtVerifier) Verify(ctx context.Context, r *Request) error {
	return verdict(v.match(ctx, r))
}

func (v *jwtVerifier) match(ctx context.Context, r *Request) (Match, *Error) {
	token, signed, err := v.token(r)
	if err != nil {
		return Match{}, err
	}
	payload, match, err := v.payload(ctx, token, signed)
	if err == nil {
		err = v.checkClaims(payload, r)
	}
	return match, err
}

// token returns the token of a request, and its parts.
func (v *jwtVerifier) token(r *Request) (string, *jose.JSONWebSignature, *Error) {
	values := r.Header[v.header]
	switch {
	case len(values) == 0:
		return "", nil, v.missing
	case len(values) > 1:
		return "", nil, errTokenTwice
	}
	token := values[0]
	if len(token) < len(v.prefix) || !strings.EqualFold(token[:len(v.prefix)], v.prefix) { // RFC 9110, section 11.1: schemes are case-insensitive
		return "", nil, v.prefixErr
	}
	token = trim(token[len(v.prefix):])
	if len(token) > maxToken || strings.ContainsAny(token, " \t\r\n") { // the library ignores white space
		return "", nil, errTokenShape
	}
	signed, bad := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{v.algorithm})
	if bad != nil {
		return "", nil, errTokenShape
	}
	return token, signed, nil
}

// payload returns the token's payload after a key has verified its signature.
func (v *jwtVerifier) payload(ctx context.Context, token string, signed *jose.JSONWebSignature) ([]byte, Match, *Error) {
	if v.fits == nil {
		return v.withSecret(token, signed)
	}
	id := signed.Signatures[0].Protected.KeyID
	keys := v.static
	if v.keySetURL != "" && len(keys) == 0 {
		if v.keys == nil {
			return nil, Match{}, errNotFetched
		}
		var err error
		if keys, err = v.keys.Keys(ctx, v.keySetURL, id); err != nil {
			return nil, Match{}, errUnavailable // Keys logs the cause
		}
	}
	tried, tries := 0, keyTries(maxKeyWork)
	for i, k := range keys {
		named := k.ID != "" && id != ""
		if (named && k.ID != id) || (k.Algorithm != "" && k.Algorithm != string(v.algorithm)) || !v.fits(k.Public) {
			continue
		}
		if tried >= maxKeysUsed || !tries.take(k.Public) {
			break
		}
		tried++
		if payload, err := v.check(signed, k.Public); err == nil {
			if len(v.static) == 0 {
				return payload, Match{}, nil
			}
			return payload, Match{i + 1, len(keys)}, nil
		}
	}
	if tried == 0 {
		return nil, Match{}, errNoKey
	}
	return nil, Match{}, refusef(ReasonMismatch, "no public key matched (of %d)", tried)
}

func checkWithKey(signed *jose.JSONWebSignature, key crypto.PublicKey) ([]byte, error) {
	return signed.Verify(key)
}

// CPUCost returns the cost of the signature checks. For keys that must be
// fetched, one check is counted if the token names its key.
func (v *jwtVerifier) CPUCost(r *Request) int {
	if v.fits == nil {
		return 0
	}
	if len(v.static) > 0 {
		return worstKeyWork(v.static, 1)
	}
	one := rsaWork
	switch v.algorithm { //nolint:exhaustive // the other algorithms cost as much as RSA or less
	case jose.ES384:
		one = p384Work
	case jose.ES512:
		one = p521Work
	}
	if v.namesKey(r) {
		return fetchUnits + one
	}
	return fetchUnits + min(maxKeysUsed*one, maxKeyWork)
}

// namesKey reports whether the token's header has a key id (kid).
func (v *jwtVerifier) namesKey(r *Request) bool {
	token := r.Header.Get(v.header)
	head, _, _ := strings.Cut(token[min(len(v.prefix), len(token)):], ".")
	raw, err := base64.RawURLEncoding.DecodeString(trim(head))
	return err == nil && len(raw) < maxToken && gjson.GetBytes(raw, "kid").Str != ""
}

// withSecret compares the token's HMAC with all secrets. The library cannot be
// used: following RFC 7518, section 3.2, it refuses secrets shorter than the hash,
// and the secrets of some providers are shorter.
func (v *jwtVerifier) withSecret(token string, signed *jose.JSONWebSignature) ([]byte, Match, *Error) {
	sent := signed.Signatures[0]
	_, critical := sent.Protected.ExtraHeaders["crit"] // RFC 7515, section 4.1.11: refuse extensions that are not understood
	input := token[:strings.LastIndexByte(token, '.')]
	number := 0
	for i, secret := range v.secrets {
		number = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(v.tokenMAC(secret, input), sent.Signature), i+1, number)
	}
	if number == 0 || critical {
		return nil, Match{}, refusef(ReasonMismatch, "no secret matched (of %d)", len(v.secrets))
	}
	return signed.UnsafePayloadWithoutVerification(), Match{number, len(v.secrets)}, nil
}

// tokenMAC returns the HMAC of the header and payload of a token.
func (v *jwtVerifier) tokenMAC(secret []byte, input string) []byte {
	mac := hmac.New(jwtHashes[string(v.algorithm)], secret)
	_, _ = io.WriteString(mac, input)
	return mac.Sum(nil)
}

// checkClaims checks the claims of a token whose signature is valid.
func (v *jwtVerifier) checkClaims(payload []byte, r *Request) *Error {
	var claims jwt.Claims
	var all map[string]json.RawMessage
	if json.Unmarshal(payload, &claims) != nil || json.Unmarshal(payload, &all) != nil {
		return errTokenClaims
	}
	if err := v.inTime(claims, r.At); err != nil {
		return err
	}
	if len(v.issuers) > 0 && !slices.Contains(v.issuers, claims.Issuer) {
		return errIssuer
	}
	if v.audience != "" {
		want := v.audience
		if want == "{url}" {
			if want = r.URL; want == "" {
				return errNoURL
			}
		}
		if !claims.Audience.Contains(want) {
			return errAudience
		}
	}
	for name, want := range v.claims {
		if claimText(all[name]) != want {
			return refusef(ReasonToken, "the token's %s does not have the configured value", name)
		}
	}
	if v.bodyHash == "" {
		return nil
	}
	var claimed [sha256.Size + 2]byte // a decoder can write two more bytes
	n := v.bodyHashIn.decode(claimed[:], claimText(all[v.bodyHash]), sha256.Size)
	sum := sha256.Sum256(r.Body)
	if subtle.ConstantTimeCompare(claimed[:n], sum[:]) != 1 {
		return refusef(ReasonMismatch, "the body does not have the hash in the token's %s", v.bodyHash)
	}
	return nil
}

// inTime checks exp, nbf and iat, with a leeway of a minute for different clocks.
// A token with iat must not be older than maxAge. If a tolerance is configured,
// iat is required.
func (v *jwtVerifier) inTime(c jwt.Claims, at time.Time) *Error {
	const leeway = time.Minute
	seconds := func(d time.Duration) int64 { return int64(d / time.Second) }
	switch {
	case at.IsZero() && (c.Expiry != nil || c.IssuedAt != nil && v.maxAge > 0 || v.wantsIssuedAt):
		return errNoReceiptTime
	case c.Expiry == nil && !v.wantsIssuedAt && v.bodyHash == "":
		return errNoExpiry
	case c.Expiry != nil && at.Sub(c.Expiry.Time()) > leeway:
		return refusef(ReasonToken, "the token expired %d s before receipt", seconds(at.Sub(c.Expiry.Time())))
	case c.NotBefore != nil && c.NotBefore.Time().Sub(at) > leeway:
		return refusef(ReasonToken, "the token becomes valid %d s after receipt", seconds(c.NotBefore.Time().Sub(at)))
	case c.IssuedAt != nil && c.IssuedAt.Time().Sub(at) > leeway:
		return refusef(ReasonTimestamp, "issued %d s after receipt", seconds(c.IssuedAt.Time().Sub(at)))
	case v.maxAge == 0, c.IssuedAt == nil && !v.wantsIssuedAt:
		return nil
	case c.IssuedAt == nil:
		return refusef(ReasonToken, "the token has no issue time (iat)")
	case at.Sub(c.IssuedAt.Time()) > v.maxAge:
		return refusef(ReasonTimestamp, "issued %d s before receipt, tolerance %d s", seconds(at.Sub(c.IssuedAt.Time())), seconds(v.maxAge))
	}
	return nil
}

// claimText returns the value of a claim that is a string, and the JSON text of
// any other claim.
func claimText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
