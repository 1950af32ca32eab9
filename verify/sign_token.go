package verify

import (
	"crypto"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// sign adds a token with all claims that the verifier requires. The token is
// issued at r.At and valid for five minutes.
func (v *jwtVerifier) sign(_ Config, r *Request, key crypto.Signer) error {
	payload, err := json.Marshal(v.claimsFor(r))
	if err != nil {
		return err
	}
	var token string
	if v.fits == nil {
		token, err = v.secretToken(payload)
	} else {
		token, err = v.keyToken(payload, key)
	}
	if err == nil {
		r.Header.Set(v.header, v.prefix+token)
	}
	return err
}

// claimsFor returns claims that checkClaims accepts.
func (v *jwtVerifier) claimsFor(r *Request) map[string]any {
	const validFor = 5 * time.Minute
	claims := map[string]any{"iat": r.At.Unix(), "exp": r.At.Add(validFor).Unix()}
	for name, value := range v.claims {
		claims[name] = value
	}
	if len(v.issuers) > 0 {
		claims["iss"] = v.issuers[0]
	}
	if v.audience != "" {
		claims["aud"] = strings.ReplaceAll(v.audience, "{url}", r.URL)
	}
	if v.bodyHash != "" {
		sum := sha256.Sum256(r.Body)
		claims[v.bodyHash] = v.bodyHashIn.encode(sum[:])
	}
	return claims
}

// secretToken signs with the first secret.
func (v *jwtVerifier) secretToken(payload []byte) (string, error) {
	header, err := json.Marshal(map[string]string{"alg": string(v.algorithm), "typ": "JWT"})
	input := inBase64URL.encode(header) + "." + inBase64URL.encode(payload)
	return input + "." + inBase64URL.encode(v.tokenMAC(v.secrets[0], input)), err
}

// keyToken signs with a private key.
func (v *jwtVerifier) keyToken(payload []byte, key crypto.Signer) (string, error) {
	if !v.fits(key.Public()) {
		return "", errOtherKey
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: v.algorithm, Key: key}, new(jose.SignerOptions).WithType("JWT"))
	if err != nil {
		return "", errOtherKey
	}
	token, err := s.Sign(payload)
	if err != nil {
		return "", err
	}
	return token.CompactSerialize()
}
