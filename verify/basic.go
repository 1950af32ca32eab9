package verify

import (
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/eventhook/eventhook"
)

// basicAuthScheme is HTTP Basic authentication (RFC 7617) with UTF-8 credentials.
// The body is not signed: a sender that knows the password can send any body.
// Several credentials are configured as Values of the form user:password.
var basicAuthScheme = scheme{
	fields:        []string{"username", "password", "values"},
	validate:      validateBasicAuth,
	build:         newBasicAuth,
	secretHeaders: func(Config) []string { return []string{"Authorization"} },
	coversBody:    never,
}

func validateBasicAuth(c Config, f *eventhook.Faults) {
	if len(c.Values) > 0 && c.Username == "" && c.Password == "" {
		validateList("values", c.Values, f)
		for i, s := range c.Values {
			if user, password, _ := strings.Cut(s, ":"); s != "" && (user == "" || password == "" || hasControl(s)) {
				f.Add(fmt.Sprintf("values[%d]", i), "want user:password without control characters")
			}
		}
		return
	}
	if len(c.Values) > 0 {
		f.Add("values", "cannot be combined with username and password")
	}
	switch {
	case c.Username == "":
		f.Add("username", "missing")
	case strings.Contains(c.Username, ":") || hasControl(c.Username):
		f.Add("username", "contains a colon or a control character, which Basic authentication does not allow")
	}
	switch {
	case c.Password == "":
		f.Add("password", "missing")
	case hasControl(c.Password):
		f.Add("password", "contains a control character, which Basic authentication does not allow")
	}
}

var (
	errNoAuthorization = &Error{ReasonMissingHeader, "no Authorization"}
	errNotBasic        = &Error{ReasonPrefix, "Authorization is not Basic, or sent more than once"}
	errWrongPassword   = &Error{ReasonCredentials, "wrong username or password"}
)

// basicAuthVerifier stores hashes of the encoded credentials, so that the time
// of a comparison does not depend on their length.
type basicAuthVerifier struct{ tokens [][sha256.Size]byte }

// newBasicAuth encodes the credentials instead of decoding requests: in strict
// base64 each text has exactly one encoding.
func newBasicAuth(c Config, _ Keys) Verifier {
	v := &basicAuthVerifier{}
	for _, token := range basicTokens(c) {
		v.tokens = append(v.tokens, sha256.Sum256([]byte(token)))
	}
	return v
}

// basicTokens returns the encoded credentials.
func basicTokens(c Config) (tokens []string) {
	credentials := c.Values
	if len(credentials) == 0 {
		credentials = []string{c.Username + ":" + c.Password}
	}
	for _, s := range credentials {
		tokens = append(tokens, base64.StdEncoding.EncodeToString([]byte(s)))
	}
	return tokens
}

//nolint:unparam // the interface requestSigner has the error
func (*basicAuthVerifier) sign(c Config, r *Request, _ crypto.Signer) error {
	r.Header.Set("Authorization", "Basic "+basicTokens(c)[0])
	return nil
}

func (*basicAuthVerifier) CPUCost(*Request) int { return 0 }

func (v *basicAuthVerifier) Verify(ctx context.Context, r *Request) error {
	return verdict(v.match(ctx, r))
}

func (v *basicAuthVerifier) match(_ context.Context, r *Request) (Match, *Error) {
	values := r.Header["Authorization"]
	if len(values) == 0 {
		return Match{}, errNoAuthorization
	}
	name, token, ok := strings.Cut(values[0], " ")
	if !ok || len(values) > 1 || !strings.EqualFold(name, "Basic") {
		return Match{}, errNotBasic
	}
	number := findHash(v.tokens, sha256.Sum256([]byte(strings.TrimLeft(token, " "))))
	if number == 0 {
		return Match{}, errWrongPassword
	}
	return Match{number, len(v.tokens)}, nil
}
