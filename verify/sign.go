package verify

import (
	"crypto"
	"errors"
	"fmt"
	"net/http"
	neturl "net/url"
	"strings"
)

// ErrPrivateKey is returned by Config.Sign for a scheme whose sender signs with a
// private key, if no private key is given.
var ErrPrivateKey = errors.New("the sender signs with a private key")

// Sign signs r as a sender does: it adds a timestamp with the time r.At, and the
// signature, the token or the password, to the headers, the URL or the body of r.
// The result is verified by New(c) if r has every other header and field that c
// requires. Sign uses the first of c's secrets. A scheme with public keys signs
// with key, whose public key must be one of c's; other schemes ignore key. If a
// signed field is in a JSON body, Sign encodes the body again.
//
// The error is of KindInvalid if c is invalid, ErrPrivateKey if key is missing,
// and otherwise describes what r lacks. No error contains a secret.
func (c Config) Sign(r *Request, key crypto.Signer) error {
	if c.SignsWithPrivateKey() && key == nil {
		return ErrPrivateKey
	}
	v, err := New(c, nil)
	if err != nil {
		return err
	}
	if r.Header == nil {
		r.Header = http.Header{}
	}
	if s, ok := v.(requestSigner); ok {
		err = s.sign(c, r, key)
	}
	if refusal, ok := errors.AsType[*Error](err); ok {
		return fmt.Errorf("the request cannot be signed: %s", refusal.Detail)
	}
	return err
}

// requestSigner is a Verifier that also signs. Every scheme except none has one.
// c is the Config of the Verifier.
type requestSigner interface {
	sign(c Config, r *Request, key crypto.Signer) error
}

var _, _, _, _, _, _, _ requestSigner = (*signatureVerifier)(nil), (*standardVerifier)(nil), (*urlFormVerifier)(nil), (*snsVerifier)(nil),
	(*jwtVerifier)(nil), (*apiKeyVerifier)(nil), (*basicAuthVerifier)(nil)

// SignsWithPrivateKey reports whether the sender signs with a private key, so that
// a source cannot sign a request for itself.
func (c Config) SignsWithPrivateKey() bool {
	switch c.Type {
	case "aws_sns", "public_key":
		return true
	case "jwt":
		return !strings.HasPrefix(c.jwtDefaults().Algorithm, "HS")
	case "standard_webhooks":
		return len(c.Secrets) == 0 && len(c.PublicKeys) > 0
	}
	return false
}

// addParameter appends a parameter to the query of a URL.
func addParameter(rawURL, name, value string) string {
	separator := "?"
	if strings.Contains(rawURL, "?") {
		separator = "&"
	}
	return rawURL + separator + neturl.Values{name: {value}}.Encode()
}
