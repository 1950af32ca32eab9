package egress

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// The bounds of reading a response's body. If the body ends within them, the connection is
// reused.
const (
	drainBytes = 64 << 10 // beyond the bytes that the caller wants
	bodyTime   = time.Second
)

// Send is Exchange without the response's body.
func (c *Client) Send(ctx context.Context, request *http.Request) (status int, header http.Header, err error) {
	status, header, _, err = c.Exchange(ctx, request, 0)
	return status, header, err
}

// Exchange makes a request of any method to an http or https URL without user and password.
// It returns the response's status, which may be any number from 100, its headers, and up
// to maxBytes of its body. The body is read until ctx ends, and for at most one second. A body that breaks off
// is not an error. Exchange sets User-Agent unless the request has one.
//
// Exchange does not change the request. If the receiver responds early, the request's
// headers and body may still be read for a moment after Exchange returned. Callers must not
// change or reuse them.
//
// A request with GetBody and an Idempotency-Key header is repeated at once if an idle
// connection turns out to be closed before the first byte of the response. The receiver may
// get such a request more than once. A key without values has the same effect and is not
// sent.
//
// Exchange ends when ctx ends. Connecting takes at most 5 s, and TLS another 5 s. Errors
// are the errors of Get, but name the host of the URL. They have a method Class that returns
// dns, connect, tls, timeout, blocked or closed.
func (c *Client) Exchange(ctx context.Context, request *http.Request, maxBytes int) (status int, header http.Header, beginning []byte, err error) {
	if !isSendable(request.URL) {
		return 0, nil, nil, errSendURL
	}
	if c.policy.Proxy != nil {
		if err := c.CheckHost(request.URL); err != nil {
			return 0, nil, nil, err
		}
	}
	info := requestInfo{request.URL.Host, time.Now()}
	bounded, cancel := context.WithCancel(&countedDials{Context: ctx})
	defer cancel()
	sent, err := c.outgoing(bounded, request)
	if err != nil {
		return 0, nil, nil, err
	}
	response, err := c.transport.RoundTrip(sent)
	if err != nil {
		if !isValidHeader(sent.Header) {
			err = errUnsendable
		}
		return 0, nil, nil, info.translate(ctx, err)
	}
	beginning = readBeginning(response, maxBytes, cancel)
	if response.StatusCode < http.StatusContinue {
		return 0, nil, nil, info.translate(ctx, errNoStatus)
	}
	return response.StatusCode, response.Header, beginning, nil
}

var errNoStatus = errors.New("a status below 100")

// readBeginning returns the first bytes of a body, reads up to drainBytes more, and closes
// the body. If that takes longer than bodyTime, it calls cancel, which must end the
// request.
func readBeginning(response *http.Response, maxBytes int, cancel func()) (beginning []byte) {
	if response.Body == http.NoBody {
		return nil
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		_ = response.Body.Close() // the body is the connection itself, which has no end
		return nil
	}
	timer := time.AfterFunc(bodyTime, cancel)
	defer timer.Stop()
	defer func() { _ = response.Body.Close() }() // with HTTP/2, Close may wait for a blocked write
	rest := &io.LimitedReader{R: response.Body, N: int64(maxBytes)}
	if maxBytes > 0 {
		var err error
		if beginning, err = io.ReadAll(rest); err != nil {
			return beginning
		}
	}
	rest.N = drainBytes
	_, _ = io.Copy(io.Discard, rest)
	return beginning
}

// CheckHost returns the error of Send for a URL whose host is an address that the Policy
// forbids, or is localhost while loopback addresses are forbidden (RFC 6761, section 6.3).
// It does not resolve other names and returns nil for them.
func (c *Client) CheckHost(u *url.URL) error {
	all, isAddress := literalAddresses(strings.ToLower(strings.TrimSuffix(dialledHost(u.Hostname()), ".")))
	switch {
	case !isAddress || slices.ContainsFunc(all, c.policy.Allows):
		return nil
	case len(all) == 0:
		return requestInfo{host: u.Host}.errorf(classBlocked, noAddress, ErrRefused)
	}
	return requestInfo{host: u.Host}.errorf(classBlocked, notPublic, ErrRefused)
}

// dialledHost returns a host as net/http dials it or passes it to a proxy: Unicode variants
// of letters, digits and dots are mapped to ASCII (UTS 46), so １２７。0。0。1 is 127.0.0.1.
func dialledHost(host string) string {
	if !strings.ContainsFunc(host, func(c rune) bool { return c >= utf8.RuneSelf }) {
		return host
	}
	if plain, err := idna.Lookup.ToASCII(host); err == nil {
		return plain
	}
	return host
}

// literalAddresses returns the addresses of a host that needs no lookup. A host whose last
// label is a number, such as 0x7f.1, is an address in an unusual spelling, because no
// top-level domain is a number. Programs disagree about which address it is, so
// literalAddresses returns no address for it.
func literalAddresses(host string) (all []netip.Addr, isAddress bool) {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, true
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, true
	}
	_, err := strconv.ParseUint(host[strings.LastIndexByte(host, '.')+1:], 0, 64)
	return nil, err == nil || errors.Is(err, strconv.ErrRange)
}
