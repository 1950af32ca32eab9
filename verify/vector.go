package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Vector is a test vector in JSON: a request with its verifier's configuration and
// the expected result. Headers have one value per name. Now is null for schemes
// without a timestamp.
type Vector struct {
	Provider  string                     `json:"provider"`
	Scheme    string                     `json:"scheme"`
	Name      string                     `json:"name"`
	Method    string                     `json:"method"`
	URL       string                     `json:"url"`
	Headers   map[string]string          `json:"headers"`
	Body      string                     `json:"body"`
	Secret    string                     `json:"secret"`
	PublicKey string                     `json:"public_key"`
	Config    map[string]json.RawMessage `json:"config"`
	Now       *int64                     `json:"now"` // Unix seconds
	Expect    string                     `json:"expect"`
}

// ignoredVectorMembers are members of config that are not options: values that the
// preset defines, and remarks. jwk and jwks are used if there is no public_key.
var ignoredVectorMembers = []string{"header", "note", "jwk", "jwks"}

// Spec returns the vector's configuration.
func (v Vector) Spec() (Spec, error) {
	s := Spec{Provider: v.Provider, Scheme: v.Scheme, Options: map[string]string{}}
	if v.Secret != "" {
		s.Secrets = []string{v.Secret}
	}
	if v.PublicKey != "" {
		s.PublicKeys = []string{v.PublicKey}
	}
	for name, raw := range v.Config {
		var text string
		switch {
		case name == "tolerance":
			s.ToleranceSeconds = new(int)
			if json.Unmarshal(raw, s.ToleranceSeconds) != nil {
				return s, fmt.Errorf("config.tolerance: want a number of seconds")
			}
		case slices.Contains(ignoredVectorMembers, name):
			if strings.HasPrefix(name, "jwk") && v.PublicKey == "" {
				s.PublicKeys = []string{string(raw)}
			}
		case json.Unmarshal(raw, &text) != nil:
			return s, fmt.Errorf("config.%s: want a string", name)
		case name == "secondary_secret":
			s.Secrets = append(s.Secrets, text)
		default:
			s.Options[name] = text
		}
	}
	return s, nil
}

// Request returns the vector's request.
func (v Vector) Request() *Request {
	r := &Request{Method: v.Method, URL: v.URL, Header: http.Header{}, Body: []byte(v.Body)}
	if r.Method == "" {
		r.Method = http.MethodPost
	}
	for name, value := range v.Headers {
		r.Header.Set(name, value)
	}
	if v.Now != nil {
		r.At = time.Unix(*v.Now, 0)
	}
	return r
}

// Verify verifies the vector's request. It returns nil if the request is verified,
// an *Error if it is refused, and another error if the vector is invalid.
func (v Vector) Verify(ctx context.Context, keys Keys) error {
	s, err := v.Spec()
	if err != nil {
		return err
	}
	resolved, faults := s.Resolve()
	if err := faults.Err("the vector's configuration is invalid"); err != nil {
		return err
	}
	verifier, err := resolved.New(keys)
	if err != nil {
		return err
	}
	return verifier.Verify(ctx, v.Request())
}
