// Package verify answers one question: was this request signed by its source?
//
// It is pure: no input or output, no clock, nothing global that changes. Time
// comes in with the Request, so a request that was kept can be verified again
// later with the answer it had on arrival; keys that a provider publishes on
// the web come in through Keys.
//
// There are few schemes and many presets: a scheme is one file and one line in
// the schemes table, a provider is a row of data over the schemes.
package verify

import (
	"context"
	"errors"
	"fmt"
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
// concurrent use. The errors of one are shared: do not change them. ctx ends
// the wait for keys that must be fetched; most schemes never wait.
type Verifier interface {
	Verify(ctx context.Context, r *Request) error
	// CPUCost is the most that Verify can cost for a request, in units of about
	// 50 µs. It reads no more of the request than its size and headers.
	CPUCost(r *Request) int
}

// ErrSignature is wrapped by every error of every Verifier.
var ErrSignature = errors.New("the request is not verified")

// Reason says in one word why a request was refused. There are only these, so
// it can be the label of a metric.
type Reason string

// The reasons.
const (
	ReasonMissingHeader Reason = "missing_header" // a header is absent
	ReasonMissingField  Reason = "missing_field"  // a field of the body, or a parameter of the URL, is absent
	ReasonPrefix        Reason = "prefix"         // no signature with the expected prefix or name
	ReasonEncoding      Reason = "encoding"       // a signature of another encoding or length
	ReasonMalformed     Reason = "malformed"      // something else that cannot be read
	ReasonTimestamp     Reason = "timestamp"      // rightly signed, outside the tolerance
	ReasonMismatch      Reason = "mismatch"       // no secret or key gives this signature
	ReasonCredentials   Reason = "credentials"    // wrong user, password or token
	ReasonKey           Reason = "key_not_found"  // the key it is signed with is unknown
	ReasonToken         Reason = "token"          // a JWT that is expired, or not for us

	// ReasonUnavailable: the key cannot be fetched now. The request may be
	// genuine, and is to be sent again.
	ReasonUnavailable Reason = "keys_unavailable"
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

// orNil is err as an error that is nil if err is.
func orNil(err *Error) error {
	if err == nil {
		return nil
	}
	return err
}

// refusef makes an Error.
func refusef(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// scheme is one way of proving where a request comes from.
type scheme struct {
	fields        []string // what it takes of a Config, besides type
	validate      func(Config, *eventhook.Faults)
	build         func(Config, Keys) Verifier // of a valid Config; must not keep its slices
	secretHeaders func(Config) []string
	coversBody    func(Config) bool // whether a changed body is noticed; nil: always
}

var schemes = map[string]scheme{
	"api_key":           apiKeyScheme,
	"aws_sns":           snsScheme,
	"basic_auth":        basicAuthScheme,
	"body_hmac":         bodyHMACScheme,
	"hash":              hashScheme,
	"hmac":              hmacScheme,
	"jwt":               jwtScheme,
	"none":              noneScheme,
	"public_key":        publicKeyScheme,
	"standard_webhooks": standardScheme,
	"timestamped_hmac":  timestampedScheme,
	"url_form_hmac":     urlFormScheme,
}

// New makes the Verifier that c describes. An invalid c gives the error of
// its Validate and no Verifier. Later changes to c do not reach the Verifier.
// keys serves schemes whose keys are published on the web; nil: there are
// none, and what is signed with one is refused with ReasonKey.
func New(c Config, keys Keys) (Verifier, error) {
	if err := c.Validate().Err("the verifier is invalid"); err != nil {
		return nil, err
	}
	return schemes[c.Type].build(c, keys), nil
}
