package verify

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"

	"github.com/eventhook/eventhook"
)

// basicAuthScheme is RFC 7617, the credentials in UTF-8. The body is not
// signed: whoever knows the password may send anything.
var basicAuthScheme = scheme{
	fields:   []string{"username", "password"},
	validate: validateBasicAuth,
	build: func(c Config) Verifier {
		// Strict base64 writes each text in one way only, so the encoded
		// credentials can be compared without decoding what was sent.
		token := base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password))
		return &basicAuthVerifier{token: sha256.Sum256([]byte(token))}
	},
	secretHeaders: func(Config) []string { return []string{"Authorization"} },
}

func validateBasicAuth(c Config, f *eventhook.Faults) {
	switch {
	case c.Username == "":
		f.Add("username", "missing")
	case strings.Contains(c.Username, ":") || hasControl(c.Username):
		f.Add("username", "holds a colon or a control character, which Basic authentication cannot carry")
	}
	switch {
	case c.Password == "":
		f.Add("password", "missing")
	case hasControl(c.Password):
		f.Add("password", "holds a control character, which Basic authentication cannot carry")
	}
}

var (
	errNoAuthorization = &Error{ReasonMissingHeader, "no Authorization"}
	errNotBasic        = &Error{ReasonMalformed, "Authorization is not Basic, or sent more than once"}
	errWrongPassword   = &Error{ReasonCredentials, "wrong username or password"}
)

// basicAuthVerifier keeps a hash, so that the comparison takes the same time
// whatever the length.
type basicAuthVerifier struct{ token [sha256.Size]byte }

func (v *basicAuthVerifier) Verify(r *Request) error {
	values := r.Header["Authorization"]
	if len(values) == 0 {
		return errNoAuthorization
	}
	name, token, ok := strings.Cut(values[0], " ")
	if !ok || len(values) > 1 || !strings.EqualFold(name, "Basic") {
		return errNotBasic
	}
	sum := sha256.Sum256([]byte(strings.TrimLeft(token, " ")))
	if subtle.ConstantTimeCompare(sum[:], v.token[:]) != 1 {
		return errWrongPassword
	}
	return nil
}
