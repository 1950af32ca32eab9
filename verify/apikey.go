package verify

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"

	"github.com/eventhook/eventhook"
)

// apiKeyScheme: the header is one of the agreed values, as it is. The body is
// not signed: whoever knows a value may send anything.
var apiKeyScheme = scheme{
	fields:   []string{"header", "values"},
	validate: validateAPIKey,
	build:    newAPIKey,
	secretHeaders: func(c Config) []string {
		return []string{http.CanonicalHeaderKey(c.Header)}
	},
}

func validateAPIKey(c Config, f *eventhook.Faults) {
	validateHeader(c.Header, f)
	validateList("values", c.Values, f)
	for i, s := range c.Values {
		if s != trim(s) || hasControl(s) {
			f.Add(fmt.Sprintf("values[%d]", i), "holds outer white space or a control character, which a header cannot carry")
		}
	}
}

// apiKeyVerifier keeps hashes, so that a comparison takes the same time
// whatever the length.
type apiKeyVerifier struct {
	header         string
	values         [][sha256.Size]byte
	missing, wrong *Error
}

func newAPIKey(c Config) Verifier {
	v := &apiKeyVerifier{
		header:  http.CanonicalHeaderKey(c.Header),
		missing: &Error{ReasonMissingHeader, "no " + c.Header},
		wrong:   &Error{ReasonCredentials, fmt.Sprintf("%s is no known key (of %d)", c.Header, len(c.Values))},
	}
	for _, s := range c.Values {
		v.values = append(v.values, sha256.Sum256([]byte(s)))
	}
	return v
}

func (v *apiKeyVerifier) Verify(r *Request) error {
	sent := r.Header[v.header]
	if len(sent) == 0 {
		return v.missing
	}
	same := 0
	for _, s := range sent[:min(len(sent), maxCandidates)] {
		if s == "" {
			continue // never a key, whatever the configuration says
		}
		sum := sha256.Sum256([]byte(s))
		for i := range v.values {
			same |= subtle.ConstantTimeCompare(sum[:], v.values[i][:])
		}
	}
	if same != 1 {
		return v.wrong
	}
	return nil
}
