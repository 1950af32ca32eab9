package verify

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/eventhook/eventhook"
)

// basicAuthScheme is RFC 7617, the credentials in UTF-8. The body is not
// signed: whoever knows the password may send anything. Several are given as
// Values of the form user:password.
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
		f.Add("values", "not beside username and password")
	}
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
	errNotBasic        = &Error{ReasonPrefix, "Authorization is not Basic, or sent more than once"}
	errWrongPassword   = &Error{ReasonCredentials, "wrong username or password"}
)

// basicAuthVerifier keeps hashes, so that the comparison takes the same time
// whatever the length.
type basicAuthVerifier struct{ tokens [][sha256.Size]byte }

// newBasicAuth encodes the credentials: strict base64 writes each text in one
// way only, so what was sent needs no decoding.
func newBasicAuth(c Config, _ Keys) Verifier {
	credentials := c.Values
	if len(credentials) == 0 {
		credentials = []string{c.Username + ":" + c.Password}
	}
	v := &basicAuthVerifier{}
	for _, s := range credentials {
		v.tokens = append(v.tokens, sha256.Sum256([]byte(base64.StdEncoding.EncodeToString([]byte(s)))))
	}
	return v
}

func (*basicAuthVerifier) CPUCost(*Request) int { return 0 }

func (v *basicAuthVerifier) Verify(_ context.Context, r *Request) error {
	values := r.Header["Authorization"]
	if len(values) == 0 {
		return errNoAuthorization
	}
	name, token, ok := strings.Cut(values[0], " ")
	if !ok || len(values) > 1 || !strings.EqualFold(name, "Basic") {
		return errNotBasic
	}
	sum, same := sha256.Sum256([]byte(strings.TrimLeft(token, " "))), 0
	for i := range v.tokens {
		same |= subtle.ConstantTimeCompare(sum[:], v.tokens[i][:])
	}
	if same != 1 {
		return errWrongPassword
	}
	return nil
}
