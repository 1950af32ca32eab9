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

// Vector is a request whose answer is known, in JSON: the format in which
// people keep cases to hold a verifier against. Headers hold one value per
// name; Now null means that the scheme has no clock.
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

// vectorNotes are members of config that are no options: what a preset knows
// itself, remarks, and the keys again, which count where there is no
// public_key.
var vectorNotes = []string{"header", "note", "jwk", "jwks"}

// Spec is the configuration that the vector asks for.
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
				return s, fmt.Errorf("config.tolerance: want seconds")
			}
		case slices.Contains(vectorNotes, name):
			if strings.HasPrefix(name, "jwk") && v.PublicKey == "" {
				s.PublicKeys = []string{string(raw)}
			}
		case json.Unmarshal(raw, &text) != nil:
			return s, fmt.Errorf("config.%s: want a text", name)
		case name == "secondary_secret":
			s.Secrets = append(s.Secrets, text)
		default:
			s.Options[name] = text
		}
	}
	return s, nil
}

// Request is the request of the vector.
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

// Verify is nil if the request is verified, an *Error if it is refused, and
// another error if the vector itself cannot be used.
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
