// Package verify checks whether a request was sent by the provider or sender
// that a source is configured for.
//
// A Config describes a signature scheme with its secrets and keys; New builds a
// Verifier from it. A Preset is the Config of a known provider. A Spec is the
// setting of a source: a provider with secrets and options, or a Config of its
// own; Spec.Resolve turns it into a Config.
//
// The package does no I/O and reads no clock. The time of receipt is part of the
// Request, so a stored request can be verified again later with the same result.
// Keys that a provider publishes on the web come through the Keys interface.
// Every refusal is an *Error that wraps ErrSignature; no error contains a secret,
// a valid signature or a part of the body.
//
// To add a scheme, add a file with a scheme value and a line in the schemes
// table. To add a provider, add a row to a presets_*.go file.
package verify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/eventhook/eventhook"
)

// Request is a received request. A Verifier does not change it and does not
// retain any part of it.
type Request struct {
	Method string
	URL    string      // as registered at the provider, with the query; never derived from the Host header
	Header http.Header // with canonical names
	Body   []byte      // the raw bytes
	At     time.Time   // the time of receipt, with which timestamps are compared
}

// Verifier verifies the requests of one source. It is safe for concurrent use.
type Verifier interface {
	// Verify returns nil if the request is authentic. Every error is an *Error
	// and wraps ErrSignature. Errors are shared between calls: do not modify
	// them. If keys must be fetched, Verify waits for them until ctx ends; most
	// schemes never wait.
	Verify(ctx context.Context, r *Request) error
	// CPUCost returns an upper bound of the CPU time that Verify uses for the
	// request, in units of about 50 µs. It reads only the request's size and
	// headers.
	CPUCost(r *Request) int
}

// Match says which of its secrets or public keys a Verifier matched with a request. The zero Match
// belongs to a scheme without secrets, and to keys that are fetched.
type Match struct {
	Number int // of the secret or key, from 1, in the order of the Config
	Of     int // the number of secrets or keys; repeated ones count once
}

// Identify verifies a request as v.Verify does, and returns which secret or key matched. The Match is
// meaningless if the error is not nil.
func Identify(ctx context.Context, v Verifier, r *Request) (Match, error) {
	if m, ok := v.(matcher); ok {
		match, err := m.match(ctx, r)
		return match, orNil(err)
	}
	return Match{}, v.Verify(ctx, r)
}

// matcher is a Verifier with several secrets or keys.
type matcher interface {
	match(ctx context.Context, r *Request) (Match, *Error)
}

// verdict returns the result of match for Verify.
func verdict(_ Match, err *Error) error { return orNil(err) }

// ErrSignature is wrapped by every error of every Verifier.
var ErrSignature = errors.New("the request is not verified")

// Reason is the kind of a refusal. The set is fixed, so that a Reason can be the
// label of a metric.
type Reason string

// The reasons.
const (
	ReasonMissingHeader Reason = "missing_header" // a required header is absent
	ReasonMissingField  Reason = "missing_field"  // a required field of the body or parameter of the URL is absent
	ReasonPrefix        Reason = "prefix"         // no signature has the expected prefix or name
	ReasonEncoding      Reason = "encoding"       // no signature has the expected encoding and length
	ReasonMalformed     Reason = "malformed"      // the request cannot be parsed for another reason
	ReasonTimestamp     Reason = "timestamp"      // the signature is valid, but the timestamp is outside the tolerance
	ReasonMismatch      Reason = "mismatch"       // the signature matches none of the secrets or keys
	ReasonCredentials   Reason = "credentials"    // the user, password or token is wrong
	ReasonKey           Reason = "key_not_found"  // the signing key is unknown
	ReasonToken         Reason = "token"          // the JWT has expired, or its claims do not match

	// ReasonUnavailable means that the signing key cannot be fetched now. The
	// request may be authentic; the sender should retry it.
	ReasonUnavailable Reason = "keys_unavailable"
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{ReasonMissingHeader, ReasonMissingField, ReasonPrefix, ReasonEncoding, ReasonMalformed, ReasonTimestamp,
		ReasonMismatch, ReasonCredentials, ReasonKey, ReasonToken, ReasonUnavailable}
}

// Error is the refusal of a request. Neither field contains a secret, a valid
// signature or a part of the body.
type Error struct {
	Reason Reason
	Detail string // for users: the header or field, and the limit
}

func (e *Error) Error() string {
	return ErrSignature.Error() + ": " + string(e.Reason) + ": " + e.Detail
}

// Unwrap returns ErrSignature.
func (e *Error) Unwrap() error { return ErrSignature }

// orNil converts a nil *Error to a nil error.
func orNil(err *Error) error {
	if err == nil {
		return nil
	}
	return err
}

// refusef returns an Error with a formatted detail.
func refusef(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// scheme is a kind of signature or credential, named by Config.Type.
type scheme struct {
	fields        []string // the keys of the Config fields that it uses, besides type
	validate      func(Config, *eventhook.Faults)
	build         func(Config, Keys) Verifier // the Config is valid; the Verifier must not retain its slices
	secretHeaders func(Config) []string       // canonical names; nil: none
	coversBody    func(Config) bool           // whether a modified body is refused; nil: always
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

// New returns the Verifier that c describes. If c is invalid, New returns the
// faults of c.Validate as an error. The Verifier does not observe later changes
// of c. keys fetches the keys that providers publish on the web. If keys is nil,
// requests that need such a key are refused with ReasonKey.
func New(c Config, keys Keys) (Verifier, error) {
	if err := c.Validate().Err("the verifier is invalid"); err != nil {
		return nil, err
	}
	return schemes[c.Type].build(c, keys), nil
}
