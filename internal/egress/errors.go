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
	// ErrRefused says that the Policy allows none of the addresses of a host.
	ErrRefused = errors.New("the address is not allowed")
	// ErrTooLarge says that the body of an answer was not read to its end.
	ErrTooLarge = errors.New("the answer is too large")
)

var (
	errProxyRefused       = errors.New("the proxy refused")
	errURL                = errors.New("want an https URL without user and password")
	errSendURL      error = &requestError{"want an http or https URL without user and password", classBlocked, nil}
)

// StatusError is the status of an answer that was not 200.
type StatusError int

func (e StatusError) Error() string { return fmt.Sprintf("the answer has the status %d", int(e)) }

// The classes of failures: see Client.Exchange.
const (
	classDNS     = "dns"     // the name could not be resolved
	classConnect = "connect" // no connection was made, or none through the proxy
	classTLS     = "tls"     // the two did not agree, or the certificate is not trusted
	classTimeout = "timeout" // ctx ended before there was an answer
	classBlocked = "blocked" // refused by the Policy, or no URL to send to: nothing was sent
	classClosed  = "closed"  // the connection broke, or what came is no answer
)

// requestError prints its text alone: what it wraps repeats addresses, and
// what the other side sent.
type requestError struct {
	text  string
	class string
	cause error
}

func (e *requestError) Error() string { return e.text }
func (e *requestError) Unwrap() error { return e.cause }

// Class says what sort of failure it is, in one word.
func (e *requestError) Class() string { return e.class }

// asking is a request to somebody, and since when.
type asking struct {
	whom  string // as people are told: never an address that was resolved
	since time.Time
}

// said is what people are told; format has a place for whom.
func (a asking) said(class, format string, cause error) error {
	return &requestError{fmt.Sprintf(format, a.whom), class, cause}
}

const (
	notPublic = "the address of %s is not public; outbound.allowed_cidrs in the gateway's configuration can allow it"
	noAddress = "%s is neither a name nor an address in full, such as 192.0.2.1"
)

// inOurWords turns an error of net/http into one that may be shown. The end of
// ctx is told even where net/http speaks of a timeout of its own making.
func (a asking) inOurWords(ctx context.Context, err error) error {
	var (
		large *http.MaxBytesError
		ours  *requestError
	)
	switch ended := ctx.Err(); {
	case errors.As(err, &ours):
		return ours
	case errors.Is(err, ErrRefused):
		return a.said(classBlocked, notPublic, ErrRefused)
	case errors.As(err, &large):
		return ErrTooLarge
	case errors.Is(ended, context.Canceled):
		return &requestError{"the request was cancelled", classClosed, ended}
	case ended != nil:
		return a.said(classTimeout, "no whole answer from %s within "+a.limit(ctx), ended)
	}
	class, format := failure(err)
	return a.said(class, format, err)
}

// limit is how long the answer might have taken.
func (a asking) limit(ctx context.Context) string {
	until, _ := ctx.Deadline()
	return fmt.Sprintf("%g s", until.Sub(a.since).Round(100*time.Millisecond).Seconds())
}

// failure says why there is no answer, with a place for whom.
func failure(err error) (class, format string) {
	var (
		way     *net.OpError
		name    *net.DNSError
		trust   *tls.CertificateVerificationError
		noTLS   tls.RecordHeaderError
		timeout net.Error
	)
	var step string // of the way there
	if errors.As(err, &way) {
		step = way.Op
	}
	switch {
	case errors.Is(err, errProxyRefused):
		return classConnect, "the proxy that outbound.proxy_url names refused a connection to %s"
	case step == "proxyconnect":
		return classConnect, "the proxy that outbound.proxy_url names could not be asked for %s"
	case errors.As(err, &name) && name.IsNotFound:
		return classDNS, "the name of %s is not known"
	case errors.As(err, &name):
		return classDNS, "the name of %s could not be looked up"
	case errors.Is(err, syscall.ECONNREFUSED):
		return classConnect, "%s refused the connection"
	case errors.As(err, &noTLS):
		return classTLS, "%s does not speak TLS, which https needs"
	case errors.As(err, &trust):
		return classTLS, "the certificate of %s is not trusted"
	case step == "remote error", step == "local error", isOfTLS(err):
		return classTLS, "%s and the gateway did not agree on TLS"
	case errors.As(err, &timeout) && timeout.Timeout() && step == "dial":
		return classConnect, "no connection to %s in time"
	case errors.As(err, &timeout) && timeout.Timeout(): // the transport's own, for handshakes
		return classTLS, "no connection to %s in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return classClosed, "%s closed the connection without a whole answer"
	case step == "dial":
		return classConnect, "the connection to %s failed"
	}
	return classClosed, "the connection to %s failed"
}

// isOfTLS reports whether crypto/tls has failed; most of its errors have no type.
func isOfTLS(err error) bool { return strings.HasPrefix(err.Error(), "tls: ") }
