package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
)

// Errors that callers compare with errors.Is.
var (
	// ErrRefused says that the Policy allows none of the addresses of a host.
	ErrRefused = errors.New("its address is not one that may be reached")
	// ErrTooLarge says that the body of an answer was not read to its end.
	ErrTooLarge = errors.New("the answer is too large")
)

var errURL = errors.New("want an https URL without user and password")

// StatusError is the status of an answer that was not 200.
type StatusError int

func (e StatusError) Error() string { return fmt.Sprintf("the answer has the status %d", int(e)) }

// requestError prints its text alone: what it wraps repeats addresses, and
// what the other side sent.
type requestError struct {
	text  string
	cause error
}

func (e *requestError) Error() string { return e.text }
func (e *requestError) Unwrap() error { return e.cause }

// inOurWords turns an error of net/http into one that may be shown. The end of
// ctx is told even where net/http speaks of a timeout of its own making.
func inOurWords(ctx context.Context, err error) error {
	var (
		large   *http.MaxBytesError
		name    *net.DNSError
		trust   *tls.CertificateVerificationError
		timeout net.Error
	)
	switch ended := ctx.Err(); {
	case errors.Is(err, ErrRefused):
		return ErrRefused
	case errors.As(err, &large):
		return ErrTooLarge
	case errors.Is(ended, context.Canceled):
		return &requestError{"the request was cancelled", ended}
	case ended != nil:
		return &requestError{"no whole answer in time", ended}
	case errors.As(err, &trust):
		return &requestError{"its certificate is not trusted", err}
	case errors.As(err, &name) && name.IsNotFound:
		return &requestError{"its name is not known", err}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &requestError{"no connection in time", err}
	}
	return &requestError{"the connection failed", err}
}
