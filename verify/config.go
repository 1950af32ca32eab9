package verify

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// Config configures a Verifier. Type decides which fields are used; Validate
// reports a field that the type does not use. docs/providers.md lists the types
// and their fields.
//
// A Config prints and logs without its secrets. It marshals with its secrets, to
// be sealed and stored. fmt and slog bypass its methods in two cases: do not
// print a struct that has a Config in an unexported field, and do not log a
// struct with a Config as JSON unless the struct has a LogValue method.
type Config struct {
	// Type is the name of the scheme. It has no default, so that unverified
	// requests are always an explicit choice (none).
	Type string `json:"type" yaml:"type"`

	// The place of the signature or token. If a header is sent several times, or
	// lists several signatures, one valid signature is enough.
	Header      string   `json:"header,omitempty" yaml:"header,omitempty"`
	AlsoHeaders []string `json:"also_headers,omitempty" yaml:"also_headers,omitempty"` // alternatives to Header
	// HeaderPerSecret checks the first secret against Header, the second against
	// the first of AlsoHeaders, and so on.
	HeaderPerSecret bool `json:"header_per_secret,omitempty" yaml:"header_per_secret,omitempty"`
	// HeaderJSON is the path of the signature in the base64-encoded JSON object
	// that Header contains.
	HeaderJSON string `json:"header_json,omitempty" yaml:"header_json,omitempty"`
	Query      string `json:"query,omitempty" yaml:"query,omitempty"` // a URL parameter, as an alternative to Header
	Path       string `json:"path,omitempty" yaml:"path,omitempty"`   // a field of the body, instead of Header; # stands for all elements
	Items      string `json:"items,omitempty" yaml:"items,omitempty"` // the objects of the body that are signed individually

	// The format of the signature.
	Prefix       string `json:"prefix,omitempty" yaml:"prefix,omitempty"`               // the text before each signature or token
	Separator    string `json:"separator,omitempty" yaml:"separator,omitempty"`         // between several signatures; default a comma; body_hmac has one signature by default
	Encoding     string `json:"encoding,omitempty" yaml:"encoding,omitempty"`           // hex (default), base64, base64url
	TimestampKey string `json:"timestamp_key,omitempty" yaml:"timestamp_key,omitempty"` // name of the timestamp in a header such as t=…,v1=…
	SignatureKey string `json:"signature_key,omitempty" yaml:"signature_key,omitempty"` // name of the signatures in such a header

	// The signed text and the algorithm.
	Signed string `json:"signed,omitempty" yaml:"signed,omitempty"` // a template such as {timestamp}.{body}
	// Reserved is a regular expression. Signed messages that match it are refused,
	// because the provider's handshake signs such messages for any caller.
	Reserved       string   `json:"reserved,omitempty" yaml:"reserved,omitempty"`
	Algorithm      string   `json:"algorithm,omitempty" yaml:"algorithm,omitempty"`             // sha256 by default
	Secrets        []string `json:"secrets,omitempty" yaml:"secrets,omitempty"`                 // all valid at the same time, for a rotation
	SecretEncoding string   `json:"secret_encoding,omitempty" yaml:"secret_encoding,omitempty"` // text (default), base64, hex, sha1
	PublicKeys     []string `json:"public_keys,omitempty" yaml:"public_keys,omitempty"`         // in any form that ParseKeys reads
	// CertificateHeader contains the URL of the signer's certificate, whose host
	// must be one of CertificateHosts. *.example.com stands for all subdomains. If
	// a path follows a host, the URL's path must begin with it.
	CertificateHeader string   `json:"certificate_header,omitempty" yaml:"certificate_header,omitempty"`
	CertificateHosts  []string `json:"certificate_hosts,omitempty" yaml:"certificate_hosts,omitempty"`
	// RequireHeaders must be sent once with exactly these values, such as the
	// version or algorithm of the scheme.
	RequireHeaders map[string]string `json:"require_headers,omitempty" yaml:"require_headers,omitempty"`

	// The time of the signature.
	TimestampHeader string `json:"timestamp_header,omitempty" yaml:"timestamp_header,omitempty"`
	TimestampPath   string `json:"timestamp_path,omitempty" yaml:"timestamp_path,omitempty"`
	TimestampUnit   string `json:"timestamp_unit,omitempty" yaml:"timestamp_unit,omitempty"` // seconds (default), milliseconds, rfc3339
	// ToleranceSeconds is the maximum difference between timestamp and receipt,
	// before or after. Default 300; with 0 the difference is not checked.
	ToleranceSeconds *int `json:"tolerance_seconds,omitempty" yaml:"tolerance_seconds,omitempty"`
	AllowFuture      bool `json:"allow_future,omitempty" yaml:"allow_future,omitempty"` // accept timestamps in the future

	// The required claims of a JWT. For aws_sns and public_key, Claims are fields
	// of the body.
	KeySetURL     string            `json:"jwks_url,omitempty" yaml:"jwks_url,omitempty"`
	Issuers       []string          `json:"issuers,omitempty" yaml:"issuers,omitempty"`
	Audience      string            `json:"audience,omitempty" yaml:"audience,omitempty"` // {url} stands for the URL of the request
	Claims        map[string]string `json:"claims,omitempty" yaml:"claims,omitempty"`
	BodyHashClaim string            `json:"body_hash_claim,omitempty" yaml:"body_hash_claim,omitempty"` // SHA-256 of the body
	// BodyHashEncoding is the encoding of this hash: hex (default), base64, base64url.
	BodyHashEncoding string `json:"body_hash_encoding,omitempty" yaml:"body_hash_encoding,omitempty"`

	// Tokens and credentials.
	Values   []string `json:"values,omitempty" yaml:"values,omitempty"` // of api_key
	Username string   `json:"username,omitempty" yaml:"username,omitempty"`
	Password string   `json:"password,omitempty" yaml:"password,omitempty"`
}

// setFields returns the keys of the fields that are set, except type.
func (c Config) setFields() []string {
	var keys []string
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		f := v.Field(i)
		empty := f.IsZero() || (f.Kind() == reflect.Slice || f.Kind() == reflect.Map) && f.Len() == 0
		if key != "type" && !empty {
			keys = append(keys, key)
		}
	}
	return keys
}

// Validate reports all faults, each at the key of its field. No message contains
// a secret.
func (c Config) Validate() eventhook.Faults {
	var faults eventhook.Faults
	s, ok := schemes[c.Type]
	if !ok {
		faults.Add("type", "%q, want one of %s", c.Type, strings.Join(Types(), ", "))
		return faults
	}
	for _, key := range c.setFields() {
		if !slices.Contains(s.fields, key) {
			faults.Add(key, "not used by type %s", c.Type)
		}
	}
	s.validate(c, &faults)
	return faults
}

// Types returns the names of all schemes, sorted.
func Types() []string { return slices.Sorted(maps.Keys(schemes)) }

// SecretHeaders returns the canonical names of the headers that contain
// credentials in clear text, to be redacted before a request is stored.
func (c Config) SecretHeaders() []string {
	if s := schemes[c.Type]; s.secretHeaders != nil {
		return s.secretHeaders(c)
	}
	return nil
}

// SecretParameters returns the names of the URL parameters that contain credentials in clear text,
// to be redacted before a request is stored.
func (c Config) SecretParameters() []string {
	if c.Query == "" {
		return nil
	}
	return []string{c.Query}
}

// CoversBody reports whether a request with a modified body is refused. If not,
// requests are authenticated but not signed: a sender that knows the token, or
// one request, can send any body.
func (c Config) CoversBody() bool {
	s := schemes[c.Type]
	return s.coversBody == nil || s.coversBody(c)
}

// never is the coversBody of schemes that do not sign the body.
func never(Config) bool { return false }

// SecretsCount returns the number of secrets and passwords.
func (c Config) SecretsCount() int {
	n := len(c.Secrets) + len(c.Values)
	if c.Password != "" {
		n++
	}
	return n
}

// String returns c without secrets.
func (c Config) String() string {
	return fmt.Sprintf("verifier{type:%q header:%q secrets:%d [redacted]}", c.Type, c.Header, c.SecretsCount())
}

// Format writes String for every verb.
func (c Config) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// LogValue implements slog.LogValuer without secrets.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("type", c.Type),
		slog.String("header", c.Header),
		slog.Int("secrets_count", c.SecretsCount()),
	)
}
