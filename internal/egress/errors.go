package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// Errors that callers compare with errors.Is.
var (
	// ErrRefused is the error for a host whose addresses are all forbidden by the Policy.
	ErrRefused = errors.New("the address is not allowed")
	// ErrTooLarge is the error for a body that is longer than the limit of the caller.
	ErrTooLarge = errors.New("the answer is too large")
)

var (
	errProxyRefused       = errors.New("the proxy refused")
	errURL                = errors.New("want an https URL without user and password")
	errSendURL      error = &requestError{"want an http or https URL without user and password", classBlocked, nil}
)

// StatusError is the status of a response other than 200.
type StatusError int

func (e StatusError) Error() string { return fmt.Sprintf("the answer has the status %d", int(e)) }

// The classes of failures: see Client.Exchange.
const (
	classDNS     = "dns"     // the name could not be resolved
	classConnect = "connect" // no connection was made, or none through the proxy
	classTLS     = "tls"     // the TLS handshake failed, or the certificate is not trusted
	classTimeout = "timeout" // ctx ended before the response
	classBlocked = "blocked" // nothing was sent: the Policy forbids the address, or the request is invalid
	classClosed  = "closed"  // the connection broke, or the response was not valid HTTP
)

// requestError is an error whose message may be shown to users. Its cause may contain
// addresses and bytes of the response, so the message does not include it.
type requestError struct {
	text  string
	class string
	cause error
}

func (e *requestError) Error() string { return e.text }
func (e *requestError) Unwrap() error { return e.cause }

// Class returns the class of the failure, in one word.
func (e *requestError) Class() string { return e.class }

// requestInfo is the part of a request that its error messages contain.
type requestInfo struct {
	host  string // for users: never a resolved address
	since time.Time
}

// errorf returns a requestError. format has a verb for the host.
func (i requestInfo) errorf(class, format string, cause error) error {
	return &requestError{fmt.Sprintf(format, i.host), class, cause}
}

const (
	notPublic = "the address of %s is not public; outbound.allowed_cidrs in the gateway's configuration can allow it"
	noAddress = "%s is neither a name nor a complete address, such as 192.0.2.1"
)

// translate turns an error of net/http into one that may be shown to users. If ctx has
// ended, the error says so, even if net/http reports a timeout of its own.
func (i requestInfo) translate(ctx context.Context, err error) error {
	var (
		large *http.MaxBytesError
		known *requestError
	)
	switch ended := ctx.Err(); {
	case errors.As(err, &known):
		return known
	case errors.Is(err, ErrRefused):
		return i.errorf(classBlocked, notPublic, ErrRefused)
	case errors.As(err, &large):
		return ErrTooLarge
	case errors.Is(ended, context.Canceled):
		return &requestError{"the request was cancelled", classClosed, ended}
	case ended != nil:
		return i.errorf(classTimeout, "no complete answer from %s within "+i.limit(ctx), ended)
	}
	class, format := failure(err)
	return i.errorf(class, format, err)
}

// limit returns the time that the response was allowed to take.
func (i requestInfo) limit(ctx context.Context) string {
	until, _ := ctx.Deadline()
	return fmt.Sprintf("%g s", until.Sub(i.since).Round(100*time.Millisecond).Seconds())
}

// failure returns the class and the message of an error. format has a verb for the host.
func failure(err error) (class, format string) {
	var (
		network *net.OpError
		name    *net.DNSError
		trust   *tls.CertificateVerificationError
		noTLS   tls.RecordHeaderError
		timeout net.Error
	)
	var step string // of connecting
	if errors.As(err, &network) {
		step = network.Op
	}
	switch {
	case errors.Is(err, errProxyRefused):
		return classConnect, "the proxy that outbound.proxy_url names refused a connection to %s"
	case step == "proxyconnect":
		return classConnect, "the proxy that outbound.proxy_url names could not be reached for a connection to %s"
	case errors.As(err, &name) && name.IsNotFound:
		return classDNS, "the name of %s is not known"
	case errors.As(err, &name):
		return classDNS, "the name of %s could not be looked up"
	case errors.Is(err, syscall.ECONNREFUSED):
		return classConnect, "%s refused the connection"
	case errors.As(err, &noTLS):
		return classTLS, "%s does not speak TLS"
	case errors.As(err, &trust):
		return classTLS, "the certificate of %s is not trusted"
	case step == "remote error", step == "local error", isTLSError(err):
		return classTLS, "the TLS handshake with %s failed"
	case errors.As(err, &timeout) && timeout.Timeout() && step == "dial":
		return classConnect, "no connection to %s in time"
	case errors.As(err, &timeout) && timeout.Timeout(): // the handshake timeout of net/http
		return classTLS, "no connection to %s in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return classClosed, "%s closed the connection without a complete answer"
	case step == "dial":
		return classConnect, "the connection to %s failed"
	}
	return classClosed, "the connection to %s failed"
}

// isTLSError reports whether err is an error of crypto/tls. Most of its errors have no type.
func isTLSError(err error) bool { return strings.HasPrefix(err.Error(), "tls: ") }
