package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/verify"
)

// specs returns the configurations to try.
func (f *verifyFlags) specs() ([]verify.Spec, error) {
	if f.verifier != "" {
		s, err := parseVerifier(f.verifier)
		return []verify.Spec{s}, err
	}
	base := verify.Spec{Provider: f.provider, Scheme: f.scheme, Secrets: f.secrets, Options: map[string]string{}}
	if f.hasTolerance {
		base.ToleranceSeconds = &f.tolerance
	}
	for _, key := range f.publicKeys {
		text, err := input.TextOrFile(key)
		if err != nil {
			return nil, err
		}
		base.PublicKeys = append(base.PublicKeys, text)
	}
	for _, o := range f.options {
		name, value, ok := strings.Cut(o, "=")
		if !ok || name == "" {
			return nil, errors.New("--option must be name=value")
		}
		base.Options[name] = value
	}
	schemes := verify.Schemes(f.provider)
	if f.scheme != "" || len(schemes) == 0 {
		schemes = []string{f.scheme}
	}
	var list []verify.Spec
	for _, scheme := range schemes {
		s := base
		s.Scheme = scheme
		if secret := os.Getenv(input.SecretVariable); len(s.Secrets) == 0 && secret != "" && takesSecret(s) {
			s.Secrets = []string{secret}
		}
		list = append(list, s)
	}
	return list, nil
}

// takesSecret reports whether the scheme of a provider uses a secret.
func takesSecret(s verify.Spec) bool {
	p, _ := verify.FindPreset(s.Provider, s.Scheme)
	return p.LearnsSecret || slices.Contains(p.RequiredFields(), "secrets")
}

// unknownMember returns the name, in quotes, that a json.Decoder refused with err as the
// name of no field.
func unknownMember(err error) (name string, ok bool) {
	return strings.CutPrefix(fmt.Sprint(err), "json: unknown field ")
}

// parseVerifier parses a verifier. Its errors do not contain the verifier, which has
// secrets.
func parseVerifier(text string) (verify.Spec, error) {
	text, err := input.TextOrFile(text)
	if err != nil {
		return verify.Spec{}, err
	}
	var c verify.Config
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	err = d.Decode(&c)
	if unknown, ok := unknownMember(err); ok {
		return verify.Spec{}, fmt.Errorf("--verifier has the unknown field %s", unknown)
	}
	if err != nil || d.More() {
		return verify.Spec{}, errors.New(`--verifier is not one JSON object such as {"type":"hmac","header":"X-Signature","secrets":["…"]}`)
	}
	return verify.Spec{Verifier: &c}, nil
}

// request returns the request to verify.
func (f *verifyFlags) request(stdin io.Reader) (r *verify.Request, err error) {
	r = &verify.Request{Method: f.method, URL: f.url, Header: http.Header{}, At: time.Now()}
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return nil, errors.New("--header must be 'Name: value'")
		}
		r.Header.Add(strings.TrimSpace(name), strings.Trim(value, " \t"))
	}
	if f.at != "" {
		if r.At, err = parseAt(f.at); err != nil {
			return nil, err
		}
	}
	if f.bodyFile != "" {
		r.Body, err = input.ReadFile(f.bodyFile, stdin)
	}
	return r, err
}

func parseAt(s string) (time.Time, error) {
	if seconds, err := strconv.ParseInt(s, 10, 64); err == nil {
		return time.Unix(seconds, 0), nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return at, fmt.Errorf("--at %q, want RFC 3339 such as 2026-03-10T12:00:00Z, or Unix seconds", s)
	}
	return at, nil
}
