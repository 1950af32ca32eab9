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

// Config describes a Verifier. Which fields count depends on Type; one that
// its type does not use is a fault, since whoever set it expected something.
// docs/providers.md lists the types and their fields.
//
// A Config prints and logs without its secrets, but marshals with them, to be
// sealed and stored. Two things fmt and slog do around it cannot be helped
// from here: do not print a struct that holds a Config in an unexported
// field, and do not log one as JSON that has no LogValue of its own.
type Config struct {
	// Type names the scheme. It has no default: that nothing is verified must
	// be said.
	Type string `json:"type" yaml:"type"`

	// Where the signature or token is. A header that is sent several times,
	// or lists several signatures, is good if one of them is.
	Header      string   `json:"header,omitempty" yaml:"header,omitempty"`
	AlsoHeaders []string `json:"also_headers,omitempty" yaml:"also_headers,omitempty"` // others that may carry it instead
	// HeaderPerSecret binds the first secret to Header, the second to the
	// first of AlsoHeaders, and so on.
	HeaderPerSecret bool `json:"header_per_secret,omitempty" yaml:"header_per_secret,omitempty"`
	// HeaderJSON is the member of the base64 encoded JSON object in Header that
	// is the signature.
	HeaderJSON string `json:"header_json,omitempty" yaml:"header_json,omitempty"`
	Query      string `json:"query,omitempty" yaml:"query,omitempty"` // a parameter of the URL that may carry it instead
	Path       string `json:"path,omitempty" yaml:"path,omitempty"`   // a field of the body that carries it; # stands for all elements
	Items      string `json:"items,omitempty" yaml:"items,omitempty"` // the objects of the body that are signed each for itself

	// How the signature is written.
	Prefix       string `json:"prefix,omitempty" yaml:"prefix,omitempty"`               // stands before each
	Separator    string `json:"separator,omitempty" yaml:"separator,omitempty"`         // stands between several; a comma by default, and for body_hmac nothing: there is one
	Encoding     string `json:"encoding,omitempty" yaml:"encoding,omitempty"`           // hex (default), base64, base64url
	TimestampKey string `json:"timestamp_key,omitempty" yaml:"timestamp_key,omitempty"` // names the timestamp in a header like t=…,v1=…
	SignatureKey string `json:"signature_key,omitempty" yaml:"signature_key,omitempty"` // and the signature

	// What is signed, and how.
	Signed string `json:"signed,omitempty" yaml:"signed,omitempty"` // a template such as {timestamp}.{body}
	// Reserved is a regular expression of messages that are no webhooks, since
	// the provider's handshake has them signed for whoever asks.
	Reserved       string   `json:"reserved,omitempty" yaml:"reserved,omitempty"`
	Algorithm      string   `json:"algorithm,omitempty" yaml:"algorithm,omitempty"`             // sha256 by default
	Secrets        []string `json:"secrets,omitempty" yaml:"secrets,omitempty"`                 // all live: during a rotation the new one and the old one
	SecretEncoding string   `json:"secret_encoding,omitempty" yaml:"secret_encoding,omitempty"` // text (default), base64, hex, sha1
	PublicKeys     []string `json:"public_keys,omitempty" yaml:"public_keys,omitempty"`         // in any form that ParseKeys reads
	// CertificateHeader carries the URL of the certificate, which must be on
	// one of CertificateHosts; *.example.com stands for all hosts below. A path
	// may follow a host: the URL's path must begin with it.
	CertificateHeader string   `json:"certificate_header,omitempty" yaml:"certificate_header,omitempty"`
	CertificateHosts  []string `json:"certificate_hosts,omitempty" yaml:"certificate_hosts,omitempty"`
	// RequireHeaders must be there with exactly these values: the versions and
	// algorithms that a scheme knows.
	RequireHeaders map[string]string `json:"require_headers,omitempty" yaml:"require_headers,omitempty"`

	// When it was signed.
	TimestampHeader string `json:"timestamp_header,omitempty" yaml:"timestamp_header,omitempty"`
	TimestampPath   string `json:"timestamp_path,omitempty" yaml:"timestamp_path,omitempty"`
	TimestampUnit   string `json:"timestamp_unit,omitempty" yaml:"timestamp_unit,omitempty"` // seconds (default), milliseconds, rfc3339
	// ToleranceSeconds is how far timestamp and receipt may lie apart, either
	// way; 300 by default, 0: the time is not judged.
	ToleranceSeconds *int `json:"tolerance_seconds,omitempty" yaml:"tolerance_seconds,omitempty"`
	AllowFuture      bool `json:"allow_future,omitempty" yaml:"allow_future,omitempty"` // judge the past only

	// What a JWT must say. Claims of aws_sns and public_key are fields of the body.
	KeySetURL     string            `json:"jwks_url,omitempty" yaml:"jwks_url,omitempty"`
	Issuers       []string          `json:"issuers,omitempty" yaml:"issuers,omitempty"`
	Audience      string            `json:"audience,omitempty" yaml:"audience,omitempty"` // {url} stands for the URL of the request
	Claims        map[string]string `json:"claims,omitempty" yaml:"claims,omitempty"`
	BodyHashClaim string            `json:"body_hash_claim,omitempty" yaml:"body_hash_claim,omitempty"` // SHA-256 of the body
	// BodyHashEncoding is how that is written: hex (default), base64, base64url.
	BodyHashEncoding string `json:"body_hash_encoding,omitempty" yaml:"body_hash_encoding,omitempty"`

	// Tokens and credentials.
	Values   []string `json:"values,omitempty" yaml:"values,omitempty"` // of api_key
	Username string   `json:"username,omitempty" yaml:"username,omitempty"`
	Password string   `json:"password,omitempty" yaml:"password,omitempty"`
}

// given lists the fields that are set, besides type, by key.
func (c Config) given() []string {
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

// Validate reports every fault at once, each at the key of its field. It
// changes nothing, and no message repeats a secret.
func (c Config) Validate() eventhook.Faults {
	var faults eventhook.Faults
	s, ok := schemes[c.Type]
	if !ok {
		faults.Add("type", "%q, want one of %s", c.Type, strings.Join(Types(), ", "))
		return faults
	}
	for _, key := range c.given() {
		if !slices.Contains(s.fields, key) {
			faults.Add(key, "not used by type %s", c.Type)
		}
	}
	s.validate(c, &faults)
	return faults
}

// Types are the names of all schemes, sorted.
func Types() []string { return slices.Sorted(maps.Keys(schemes)) }

// SecretHeaders names the headers that carry credentials of this verifier in
// the clear, in canonical form, so that they can be redacted before a request
// is stored.
func (c Config) SecretHeaders() []string {
	if s := schemes[c.Type]; s.secretHeaders != nil {
		return s.secretHeaders(c)
	}
	return nil
}

// CoversBody reports whether a changed body is noticed. Where it is not,
// requests are authenticated but not signed: whoever learns the token, or one
// request, may send any body.
func (c Config) CoversBody() bool {
	s := schemes[c.Type]
	return s.coversBody == nil || s.coversBody(c)
}

// never is for schemes that do not look at the body.
func never(Config) bool { return false }

// SecretsCount is how many secrets there are: all that may be told of them.
func (c Config) SecretsCount() int {
	n := len(c.Secrets) + len(c.Values)
	if c.Password != "" {
		n++
	}
	return n
}

// String tells what may be known of c.
func (c Config) String() string {
	return fmt.Sprintf("verifier{type:%q header:%q secrets:%d [redacted]}", c.Type, c.Header, c.SecretsCount())
}

// Format writes String whatever the verb.
func (c Config) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// LogValue logs what may be known of c.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("type", c.Type),
		slog.String("header", c.Header),
		slog.Int("secrets_count", c.SecretsCount()),
	)
}
