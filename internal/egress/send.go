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

// The bounds of what is read of a response's body beyond what the caller wants. A
// body that ends within them leaves a connection that can be used again.
const (
	drainBytes = 64 << 10
	bodyTime   = time.Second
)

// Send makes a request as Exchange does, and keeps nothing of the response's body.
func (c *Client) Send(ctx context.Context, request *http.Request) (status int, header http.Header, err error) {
	status, header, _, err = c.Exchange(ctx, request, 0)
	return status, header, err
}

// Exchange makes a request of any method to an http or https URL, without user
// and password in it, and returns the response's status and headers, whatever
// they are, and the first bytes of its body, up to most. The body is read until
// ctx ends and for a second at most. A body that breaks off is no error. Exchange
// sets User-Agent unless the request does.
//
// Exchange does not change the request. If the receiver responds early, the
// request's headers and body may still be read for a moment after Exchange
// returned, so they must not be changed or used again.
//
// A request with GetBody and with an Idempotency-Key in its headers is repeated at
// once if a kept connection turns out to be closed before a byte of the response
// came: the receiver may see the request more than once. A key without values has
// the same effect and is not sent.
//
// Exchange takes as long as ctx allows, and no longer than 5 s to connect and 5 s
// for TLS. Errors are those of Get, name the host as the URL does, and have a
// method Class that returns dns, connect, tls, timeout, blocked or closed.
func (c *Client) Exchange(ctx context.Context, request *http.Request, most int) (status int, header http.Header, beginning []byte, err error) {
	if !isSendable(request.URL) {
		return 0, nil, nil, errSendURL
	}
	if c.policy.Proxy != nil {
		if err := c.CheckHost(request.URL); err != nil {
			return 0, nil, nil, err
		}
	}
	asking := asking{request.URL.Host, time.Now()}
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
		return 0, nil, nil, asking.inOurWords(ctx, err)
	}
	beginning = readBeginning(response, most, cancel)
	if response.StatusCode < http.StatusContinue {
		return 0, nil, nil, asking.inOurWords(ctx, errNoStatus)
	}
	return response.StatusCode, response.Header, beginning, nil
}

var errNoStatus = errors.New("a status below 100")

// readBeginning returns the first bytes of a body, reads a short rest, and closes
// the body. It calls cancel, which must end the request, if that takes longer than
// bodyTime.
func readBeginning(response *http.Response, most int, cancel func()) (beginning []byte) {
	if response.Body == http.NoBody {
		return nil
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		_ = response.Body.Close() // the connection itself, which has no end
		return nil
	}
	timer := time.AfterFunc(bodyTime, cancel)
	defer timer.Stop()
	defer func() { _ = response.Body.Close() }() // of HTTP/2 it may wait for a blocked write
	rest := &io.LimitedReader{R: response.Body, N: int64(most)}
	if most > 0 {
		var err error
		if beginning, err = io.ReadAll(rest); err != nil {
			return beginning
		}
	}
	rest.N = drainBytes
	_, _ = io.Copy(io.Discard, rest)
	return beginning
}

// CheckHost is the error of Send that can be told without asking anybody: that the
// Policy refuses the address that a URL gives for its host, or this machine,
// which localhost is (RFC 6761, section 6.3). Of a name it says nothing.
func (c *Client) CheckHost(u *url.URL) error {
	all, known := foreseen(strings.ToLower(strings.TrimSuffix(dialled(u.Hostname()), ".")))
	switch {
	case !known || slices.ContainsFunc(all, c.policy.allows):
		return nil
	case len(all) == 0:
		return asking{whom: u.Host}.said(classBlocked, noAddress, ErrRefused)
	}
	return asking{whom: u.Host}.said(classBlocked, notPublic, ErrRefused)
}

// dialled is a host as net/http dials it, or names it to a proxy: other forms of
// letters, digits and dots are the common ones (UTS 46), so １２７。0。0。1 is 127.0.0.1.
func dialled(host string) string {
	if !strings.ContainsFunc(host, func(c rune) bool { return c >= utf8.RuneSelf }) {
		return host
	}
	if plain, err := idna.Lookup.ToASCII(host); err == nil {
		return plain
	}
	return host
}

// foreseen are the addresses of a host, if they are known without asking. One
// whose last label is a number is an address in some spelling, such as 0x7f.1,
// since no name at the top is; which one, others may see differently.
func foreseen(host string) (all []netip.Addr, known bool) {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, true
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, true
	}
	_, err := strconv.ParseUint(host[strings.LastIndexByte(host, '.')+1:], 0, 64)
	return nil, err == nil || errors.Is(err, strconv.ErrRange)
}
