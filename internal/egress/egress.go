// Package egress makes the gateway's requests to addresses that tenants and senders
// choose: key sets and certificates that a source names, confirmations that a
// provider asks for, the targets of routes, the receivers of subscriptions. An
// address must not give its author access to a host that the author could not reach
// otherwise, and a response must cost a bounded time and a bounded amount of memory.
//
// A Client is net/http's Transport with a Policy in its dialer, which checks the
// very address that is dialled: a name that resolves to another address the next
// time is checked again. A Client follows no redirect, uses no proxy but the
// configured one, and keeps no cookies. It uses HTTP/2 where the receiver offers it,
// within the bounds in transport.go.
package egress

import (
	"context"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"
)

// Policy says whom a Client may reach, and whom it believes. The zero Policy
// is for the public internet.
type Policy struct {
	// AllowPrivate allows loopback, private and carriers' shared networks
	// too; still not link-local addresses, nor those where clouds hand out
	// credentials.
	AllowPrivate bool
	// AllowedCIDRs are allowed whatever else is said of them. An address that
	// stands for an IPv4 address is looked up as that.
	AllowedCIDRs []netip.Prefix
	// Proxy dials for us, if there is one. It resolves the names, so the addresses
	// that they have are its to judge; ours alone are those that CheckHost tells.
	Proxy *url.URL
	// RootCAs sign the servers' certificates; nil: those of the system.
	RootCAs *x509.CertPool
}

// allows judges an address that is about to be dialled.
func (p Policy) allows(a netip.Addr) bool {
	a = meant(a)
	reach := reachOf(a)
	return reach == anybody || reach == insider && p.AllowPrivate || within(p.AllowedCIDRs, a)
}

// control runs after the name was resolved and before a connection is made,
// once for each address that is tried.
func (p Policy) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !p.allows(to.Addr()) {
		return ErrRefused
	}
	return nil
}

// Client makes requests within a Policy. It is safe for concurrent use once
// its fields are set.
type Client struct {
	UserAgent string        // "eventhook" by default
	Timeout   time.Duration // of a whole Get, reading the answer included; 10 s by default

	policy    Policy
	transport *http.Transport
}

// New makes a Client, which connects to nobody before it is asked to.
func New(p Policy) *Client {
	p.AllowedCIDRs = slices.Clone(p.AllowedCIDRs)
	return newClient(p, p.dialer(nil).DialContext)
}

// dialer judges each address that it is about to dial, but for a proxy's. With
// no resolver it has the system's.
func (p Policy) dialer(r *net.Resolver) *net.Dialer {
	d := &net.Dialer{Timeout: connectTimeout, Resolver: r}
	if p.Proxy == nil {
		d.ControlContext = p.control
	}
	return d
}

func newClient(p Policy, dial dialFunc) *Client {
	return &Client{UserAgent: "eventhook", Timeout: 10 * time.Second, policy: p, transport: newTransport(p, dial)}
}

// Document is what a Get brought.
type Document struct {
	Body        []byte
	ContentType string        // as the server says it
	MaxAge      time.Duration // of Cache-Control; 0 if it gives none, or forbids to keep the answer
}

// Get fetches the document at an https URL, on any port, without user and
// password in it. Any answer but 200 is a StatusError, a redirect too; a body
// of more than most bytes is ErrTooLarge and never cut; an address that the
// Policy does not allow is ErrRefused.
//
// It returns when ctx ends or Timeout has passed, and the error then wraps
// context.Canceled or context.DeadlineExceeded. Errors print in our own words:
// nothing of the answer, of the URL, or of the addresses behind it. What they
// wrap may print all of that.
func (c *Client) Get(ctx context.Context, url string, most int64) (Document, error) {
	asking := asking{"the server", time.Now()}
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
		return Document{}, asking.inOurWords(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return Document{}, StatusError(response.StatusCode)
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, response.Body, most))
	if err != nil {
		return Document{}, asking.inOurWords(ctx, err)
	}
	return Document{Body: body, ContentType: response.Header.Get("Content-Type"), MaxAge: maxAge(response.Header)}, nil
}

// maxURL is what common servers take.
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
