// Package egress makes the gateway's requests to addresses that tenants and senders
// choose: key sets and certificates of sources, confirmations that a provider requires,
// the targets of routes, the receivers of subscriptions. Through the gateway, no author of
// an address reaches a host that is not public, unless the operator allows it. Each
// response costs a bounded time and a bounded amount of memory.
//
// A Client is net/http's Transport with a Policy in its dialer. The dialer checks each
// address when it is dialled, so a name that resolves to another address later is checked
// again. A Client follows no redirects, uses no proxy other than the configured one, and
// stores no cookies. It uses HTTP/2 if the receiver offers it, within the bounds in
// transport.go.
package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// Policy defines which addresses a Client may reach and which certificates it trusts. The
// zero Policy allows the public internet and trusts the roots of the system.
type Policy struct {
	// AllowPrivate also allows loopback addresses, private networks and the shared
	// networks of carriers. It does not allow link-local addresses and the metadata
	// addresses of clouds, which return credentials.
	AllowPrivate bool
	// AllowedCIDRs are always allowed. An IPv6 address that embeds an IPv4 address is
	// compared as the IPv4 address.
	AllowedCIDRs []netip.Prefix
	// Proxy, unless nil, makes all connections. It resolves names, so the proxy must
	// check their addresses. The Client only makes the check of CheckHost.
	Proxy *url.URL
	// RootCAs are the trusted roots of server certificates; nil: the roots of the system.
	RootCAs *x509.CertPool
	// Allow, unless nil, alone decides which addresses are dialled. Its context has the values of
	// the request for which a connection is made; later requests to the same scheme, host and port
	// may use the connection.
	Allow func(ctx context.Context, a netip.Addr) bool
	// Resolver resolves names; nil: the resolver of the system.
	Resolver *net.Resolver

	certificates []tls.Certificate // presented to servers that ask for one
}

// Allows reports whether AllowPrivate and AllowedCIDRs allow an address.
func (p Policy) Allows(a netip.Addr) bool {
	a = embeddedIPv4(a)
	scope := scopeOf(a)
	return scope == publicScope || scope == privateScope && p.AllowPrivate || contains(p.AllowedCIDRs, a)
}

// control is a ControlContext of net.Dialer, which runs for each address before it is
// dialled.
func (p Policy) control(ctx context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	switch {
	case err != nil:
		return ErrRefused
	case p.Allow != nil && p.Allow(ctx, to.Addr()), p.Allow == nil && p.Allows(to.Addr()):
		return nil
	}
	return ErrRefused
}

// Client makes requests within a Policy. It is safe for concurrent use once
// its fields are set.
type Client struct {
	UserAgent string        // "eventhook" by default
	Timeout   time.Duration // of a Get, including reading the body; 10 s by default

	policy    Policy
	dial      dialFunc
	transport *http.Transport
	http2     *atomic.Int64 // open HTTP/2 connections, also of the clients that WithCertificate returned
}

// New returns a Client. It makes no connection.
func New(p Policy) *Client {
	p.AllowedCIDRs = slices.Clone(p.AllowedCIDRs)
	return newClient(p, p.dialer().DialContext)
}

// dialer returns a dialer that checks each address, except the address of the proxy.
func (p Policy) dialer() *net.Dialer {
	d := &net.Dialer{Timeout: connectTimeout, Resolver: p.Resolver}
	if p.Proxy == nil {
		d.ControlContext = p.control
	}
	return d
}

func newClient(p Policy, dial dialFunc) *Client {
	c := &Client{UserAgent: "eventhook", Timeout: 10 * time.Second, policy: p, dial: dial, http2: new(atomic.Int64)}
	c.transport = newTransport(p, dial, c.http2)
	return c
}

// WithCertificate returns a Client with the same Policy and with connections of its own, in
// which it presents a certificate to servers that ask for one. authorities, unless nil,
// replaces the trusted roots.
func (c *Client) WithCertificate(certificate tls.Certificate, authorities *x509.CertPool) *Client {
	const maxIdle, maxIdlePerHost = 32, 16 // one receiver and few connections
	own := *c
	own.policy.certificates = []tls.Certificate{certificate}
	if authorities != nil {
		own.policy.RootCAs = authorities
	}
	own.transport = newTransport(own.policy, c.dial, c.http2)
	own.transport.MaxIdleConns, own.transport.MaxIdleConnsPerHost = maxIdle, maxIdlePerHost
	return &own
}

// DialContext connects to an address of another protocol than HTTP. It checks the address like every
// other, and does not use the proxy. The caller bounds the number of connections.
func (c *Client) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	p := c.policy
	p.Proxy = nil
	return p.dialer().DialContext(ctx, network, address)
}

// Explain returns an error of a connection to a host, which began at a time, as an error whose message
// may be shown to users. It has the method Class of the errors of Exchange.
func (c *Client) Explain(ctx context.Context, host string, since time.Time, err error) error {
	return requestInfo{host, since}.translate(ctx, err)
}

// CloseIdleConnections closes the connections that are idle. Requests that run are not
// interrupted; their connections are closed once they have been idle for a while.
func (c *Client) CloseIdleConnections() { c.transport.CloseIdleConnections() }

// Document is the result of Get.
type Document struct {
	Body        []byte
	ContentType string        // the Content-Type header
	MaxAge      time.Duration // of Cache-Control; 0 if it is absent or the response must not be cached
}

// Get fetches the document at an https URL without user and password. The URL may have a
// port. A status other than 200, such as a redirect, is a StatusError. A body of more than
// maxBytes is ErrTooLarge and never truncated. An address that the Policy forbids is
// ErrRefused.
//
// Get returns when ctx ends or Timeout has passed. Then the error wraps context.Canceled or
// context.DeadlineExceeded. The messages of errors contain no part of the response, of the
// URL, or of resolved addresses. The errors that they wrap may contain them.
func (c *Client) Get(ctx context.Context, url string, maxBytes int64) (Document, error) {
	info := requestInfo{"the server", time.Now()}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	request, err := c.request(ctx, url)
	if err != nil {
		return Document{}, err
	}
	if c.policy.Proxy != nil {
		if err := c.CheckHost(request.URL); err != nil {
			return Document{}, err
		}
	}
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return Document{}, info.translate(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return Document{}, StatusError(response.StatusCode)
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, response.Body, maxBytes))
	if err != nil {
		return Document{}, info.translate(ctx, err)
	}
	return Document{Body: body, ContentType: response.Header.Get("Content-Type"), MaxAge: maxAge(response.Header)}, nil
}

// maxURL is the URL length that common servers accept.
const maxURL = 8 << 10

func (c *Client) request(ctx context.Context, text string) (*http.Request, error) {
	to, err := url.Parse(text)
	if err != nil || len(text) > maxURL || to.Scheme != "https" || to.Hostname() == "" || to.User != nil {
		return nil, errURL // url.Parse repeats the text
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, text, nil)
	if err != nil {
		return nil, errURL
	}
	request.Header.Set("User-Agent", c.UserAgent)
	return request, nil
}
