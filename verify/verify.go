// Package verify answers one question: was this request signed by its source?
//
// It is pure: no input or output, no clock, nothing global that changes. Time
// comes in with the Request, so a request that was kept can be verified again
// later with the answer it had on arrival.
//
// A scheme is one file and one line in the schemes table; a provider is one
// row in the presets table.
package verify

import (
	"errors"
	"net/http"
	"time"

	"github.com/eventhook/eventhook"
)

// Request is what a sender sent. Verifiers read it and keep nothing of it.
type Request struct {
	Method string
	URL    string      // as registered at the provider, with the query; never rebuilt from Host
	Header http.Header // canonical names, as net/http makes them
	Body   []byte      // the raw bytes
	At     time.Time   // moment of receipt: timestamps are judged against it
}

// Verifier decides whether a request comes from its source: nil means yes.
// Every error is an *Error and wraps ErrSignature. A Verifier is safe for
// concurrent use. The errors of one are shared: do not change them.
type Verifier interface {
	Verify(r *Request) error
}

// ErrSignature is wrapped by every error of every Verifier.
var ErrSignature = errors.New("the request is not verified")

// Reason says in one word why a request was refused. There are only these, so
// it can be the label of a metric.
type Reason string

// The reasons.
const (
	ReasonMissingHeader Reason = "missing_header" // the header is absent
	ReasonMalformed     Reason = "malformed"      // no signature that could be compared
	ReasonTimestamp     Reason = "timestamp"      // rightly signed, outside the tolerance
	ReasonMismatch      Reason = "mismatch"       // no secret gives this signature
	ReasonCredentials   Reason = "credentials"    // wrong user, password or key
)

// Error tells why a request was refused. Neither field holds a secret, a
// signature that would have been right, or anything of the body.
type Error struct {
	Reason Reason
	Detail string
}

func (e *Error) Error() string {
	return ErrSignature.Error() + ": " + string(e.Reason) + ": " + e.Detail
}

// Unwrap returns ErrSignature.
func (e *Error) Unwrap() error { return ErrSignature }

// scheme is one way of proving where a request comes from.
type scheme struct {
	fields        []string // what it takes of a Config, besides type
	validate      func(Config, *eventhook.Faults)
	build         func(Config) Verifier // of a valid Config; must not keep its slices
	secretHeaders func(Config) []string
}

var schemes = map[string]scheme{
	"api_key":          apiKeyScheme,
	"basic_auth":       basicAuthScheme,
	"hmac":             hmacScheme,
	"none":             noneScheme,
	"timestamped_hmac": timestampedScheme,
}

// New makes the Verifier that c describes. An invalid c gives the error of
// its Validate and no Verifier. Later changes to c do not reach the Verifier.
func New(c Config) (Verifier, error) {
	if err := c.Validate().Err("the verifier is invalid"); err != nil {
		return nil, err
	}
	return schemes[c.Type].build(c), nil
}
