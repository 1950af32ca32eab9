package verify

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// Config describes a Verifier. Which fields count depends on Type; one that
// its type does not use is a fault, since whoever set it expected something.
//
// A Config prints and logs without its secrets, but marshals with them, to be
// sealed and stored. Two things fmt and slog do around it cannot be helped
// from here: do not print a struct that holds a Config in an unexported
// field, and do not log one as JSON that has no LogValue of its own.
type Config struct {
	// Type is hmac, timestamped_hmac, basic_auth, api_key or none. It has no
	// default: that nothing is verified must be said.
	Type string `json:"type" yaml:"type"`
	// Header carries the signature (hmac, timestamped_hmac) or the key (api_key).
	Header    string `json:"header,omitempty" yaml:"header,omitempty"`
	Algorithm string `json:"algorithm,omitempty" yaml:"algorithm,omitempty"` // sha1, sha256 (default), sha512
	Encoding  string `json:"encoding,omitempty" yaml:"encoding,omitempty"`   // hex (default), base64
	// Prefix stands before each signature (hmac).
	Prefix string `json:"prefix,omitempty" yaml:"prefix,omitempty"`
	// TimestampKey and SignatureKey name the parts of a timestamped header,
	// "t" and "v1" by default; Joiner, "." by default, stands between
	// timestamp and body in what is signed.
	TimestampKey string `json:"timestamp_key,omitempty" yaml:"timestamp_key,omitempty"`
	SignatureKey string `json:"signature_key,omitempty" yaml:"signature_key,omitempty"`
	Joiner       string `json:"joiner,omitempty" yaml:"joiner,omitempty"`
	// ToleranceSeconds is how far timestamp and receipt may lie apart, either
	// way; 300 by default.
	ToleranceSeconds *int `json:"tolerance_seconds,omitempty" yaml:"tolerance_seconds,omitempty"`
	// Secrets are all live: during a rotation the new one and the old one.
	// They are used as they are written, whatever encoding they resemble.
	Secrets    []string `json:"secrets,omitempty" yaml:"secrets,omitempty"`
	Username   string   `json:"username,omitempty" yaml:"username,omitempty"`
	Password   string   `json:"password,omitempty" yaml:"password,omitempty"`
	Values     []string `json:"values,omitempty" yaml:"values,omitempty"` // the keys of api_key
	PublicKeys []string `json:"public_keys,omitempty" yaml:"public_keys,omitempty"`
}

// given lists the fields that are set, besides type, by key.
func (c Config) given() []string {
	var keys []string
	for _, f := range []struct {
		key string
		set bool
	}{
		{"header", c.Header != ""},
		{"algorithm", c.Algorithm != ""},
		{"encoding", c.Encoding != ""},
		{"prefix", c.Prefix != ""},
		{"timestamp_key", c.TimestampKey != ""},
		{"signature_key", c.SignatureKey != ""},
		{"joiner", c.Joiner != ""},
		{"tolerance_seconds", c.ToleranceSeconds != nil},
		{"secrets", len(c.Secrets) > 0},
		{"username", c.Username != ""},
		{"password", c.Password != ""},
		{"values", len(c.Values) > 0},
		{"public_keys", len(c.PublicKeys) > 0},
	} {
		if f.set {
			keys = append(keys, f.key)
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
		types := strings.Join(slices.Sorted(maps.Keys(schemes)), ", ")
		faults.Add("type", "%q, want one of %s", c.Type, types)
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

// SecretHeaders names the headers that carry credentials of this verifier in
// the clear, in canonical form, so that they can be redacted before a request
// is stored.
func (c Config) SecretHeaders() []string {
	if s := schemes[c.Type]; s.secretHeaders != nil {
		return s.secretHeaders(c)
	}
	return nil
}

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
