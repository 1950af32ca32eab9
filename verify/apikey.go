package verify

import (
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	neturl "net/url"
	"strings"

	"github.com/eventhook/eventhook"
)

// apiKeyScheme checks that a header, a URL parameter or a field of the body is
// one of the configured values. The body is not signed: a sender that knows a
// value can send any body. If Path stands for several fields, each must match.
var apiKeyScheme = scheme{
	fields:   []string{"header", "prefix", "query", "path", "values"},
	validate: validateAPIKey,
	build:    func(c Config, _ Keys) Verifier { return newAPIKey(c) },
	secretHeaders: func(c Config) []string {
		if c.Header == "" {
			return nil
		}
		return []string{http.CanonicalHeaderKey(c.Header)}
	},
	coversBody: never,
}

func validateAPIKey(c Config, f *eventhook.Faults) {
	switch {
	case c.Path != "":
		validateOnePath("path", c.Path, true, f)
		if c.Header != "" || c.Query != "" {
			f.Add("path", "cannot be combined with header or query")
		}
	case c.Header != "" || c.Query == "":
		validateHeader(c.Header, f)
	}
	if hasControl(c.Prefix) {
		f.Add("prefix", "contains a control character, which a header cannot contain")
	}
	validateList("values", c.Values, f)
	for i, s := range c.Values {
		if s != trim(s) || hasControl(s) {
			f.Add(fmt.Sprintf("values[%d]", i), "contains leading or trailing white space or a control character, which a header cannot contain")
		}
	}
}

// apiKeyVerifier stores hashes of the values, so that the time of a comparison
// does not depend on the length of the value.
type apiKeyVerifier struct {
	header, prefix, query     string
	path                      fieldPath
	values                    [][sha256.Size]byte
	missing, wrong, prefixErr *Error
}

func newAPIKey(c Config) *apiKeyVerifier {
	v := &apiKeyVerifier{query: c.Query, prefix: c.Prefix, path: parseFieldPath(c.Path)}
	place := c.Header
	if c.Header != "" {
		v.header = http.CanonicalHeaderKey(c.Header)
		v.missing = missingHeader(c.Header)
	} else {
		v.missing = refusef(ReasonMissingField, "no parameter %s in the URL", c.Query)
		place = c.Query
	}
	if c.Path != "" {
		v.missing = refusef(ReasonMissingField, "no %s in the body", c.Path)
		place = c.Path
	}
	v.wrong = refusef(ReasonCredentials, "%s does not match a configured value (of %d)", place, len(c.Values))
	v.prefixErr = refusef(ReasonPrefix, "%s does not begin with %s", place, trim(c.Prefix))
	for _, s := range c.Values {
		v.values = append(v.values, sha256.Sum256([]byte(s)))
	}
	return v
}

// CPUCost returns the cost of parsing the body if the key is in the body.
func (v *apiKeyVerifier) CPUCost(r *Request) int {
	if v.path == nil {
		return 0
	}
	return viewWork(r)
}

func (v *apiKeyVerifier) Verify(ctx context.Context, r *Request) error {
	return verdict(v.match(ctx, r))
}

func (v *apiKeyVerifier) match(_ context.Context, r *Request) (Match, *Error) {
	find := v.inHeader
	switch {
	case v.path != nil:
		find = v.inBody
	case len(r.Header[v.header]) == 0 && v.query != "":
		find = v.inQuery
	}
	number, err := find(r)
	return Match{number, len(v.values)}, err
}

// inHeader, inQuery and inBody return the number, from 1, of the value in the request.
func (v *apiKeyVerifier) inHeader(r *Request) (int, *Error) {
	sent := r.Header[v.header]
	if len(sent) == 0 {
		return 0, v.missing
	}
	number, prefixed := 0, false
	for _, s := range sent[:min(len(sent), maxCandidates)] {
		if len(s) >= len(v.prefix) && strings.EqualFold(s[:len(v.prefix)], v.prefix) {
			prefixed = true
			number = max(number, v.find(s[len(v.prefix):]))
		}
	}
	switch {
	case !prefixed:
		return 0, v.prefixErr
	case number == 0:
		return 0, v.wrong
	}
	return number, nil
}

func (v *apiKeyVerifier) inQuery(r *Request) (int, *Error) {
	_, raw, _ := strings.Cut(r.URL, "?")
	values, err := neturl.ParseQuery(raw)
	sent := values[v.query]
	switch {
	case err != nil || len(sent) == 0:
		return 0, v.missing
	case len(sent) > 1:
		return 0, v.wrong
	}
	number := v.find(sent[0])
	if number == 0 {
		return 0, v.wrong
	}
	return number, nil
}

func (v *apiKeyVerifier) inBody(r *Request) (number int, bad *Error) {
	view, bad := viewOf(r)
	if bad != nil {
		return 0, bad
	}
	n, bad := view.each(v.path[0], func(o object) *Error {
		text, _ := o.text(rootPath) // cannot fail for the root path
		if number = v.find(text); number == 0 {
			return v.wrong
		}
		return nil
	})
	if bad == nil && n == 0 {
		bad = v.missing
	}
	return number, bad
}

// find returns the number of s among the values, or 0, in a time that does not depend on the
// values. It returns 0 for an empty s.
func (v *apiKeyVerifier) find(s string) int {
	if s == "" {
		return 0
	}
	return findHash(v.values, sha256.Sum256([]byte(s)))
}

// findHash returns the number, from 1, of the last hash in the list that equals sum, or 0 if none
// does, in constant time.
func findHash(list [][sha256.Size]byte, sum [sha256.Size]byte) (number int) {
	for i := range list {
		number = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], list[i][:]), i+1, number)
	}
	return number
}

// sign adds the first value.
func (v *apiKeyVerifier) sign(c Config, r *Request, _ crypto.Signer) error {
	switch value := c.Values[0]; {
	case v.path != nil:
		return setFields(r, v.path[0], value)
	case v.header != "":
		r.Header.Set(v.header, v.prefix+value)
	default:
		r.URL = addParameter(r.URL, v.query, value)
	}
	return nil
}
