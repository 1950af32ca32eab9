package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
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

// The bounds of what is read of an answer's body beyond what somebody wants: to
// its end, so that the connection can be used again, if that is near.
const (
	drainBytes = 64 << 10
	bodyTime   = time.Second
)

// exchanger makes requests, any two at once; errors are in the words of who failed.
type exchanger interface {
	exchange(ctx context.Context, r *http.Request, most int) (reply, error)
}

// reply is an answer, with the first bytes of its body.
type reply struct {
	status    int
	header    http.Header
	beginning []byte
}

func newSender(p Policy, dial func(ctx context.Context, network, address string) (net.Conn, error)) exchanger {
	if p.Proxy == nil {
		return newDirect(p, dial)
	}
	t := transport(p, dial)
	t.ForceAttemptHTTP2 = false
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	t.TLSClientConfig.NextProtos = []string{"http/1.1"}
	t.MaxIdleConns, t.MaxIdleConnsPerHost = idleSends, idleSendsPerHost
	return proxied{t}
}

// proxied makes requests by way of a proxy. It is no http.Client, which copies
// each header to have it for redirects.
type proxied struct{ *http.Transport }

func (p proxied) exchange(ctx context.Context, r *http.Request, most int) (reply, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	response, err := p.RoundTrip(r.WithContext(ctx))
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = response.Body.Close() }()
	answered := reply{status: response.StatusCode, header: response.Header}
	if response.ContentLength != 0 { // as of a switch of protocols: what follows that has no end
		timer := time.AfterFunc(bodyTime, cancel)
		defer timer.Stop()
		answered.beginning, _ = readBeginning(response.Body, most)
	}
	return answered, nil
}

func transport(p Policy, dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		Proxy:                  proxy(p),
		OnProxyConnectResponse: onProxyAnswer,
		DialContext:            dial,
		TLSClientConfig:        &tls.Config{RootCAs: p.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    connectTimeout,
		DisableCompression:     true, // what we read is what was sent
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// proxy is the one that is configured, and none that the environment names: it
// would dial for us.
func proxy(p Policy) func(*http.Request) (*url.URL, error) {
	if p.Proxy == nil {
		return nil
	}
	return http.ProxyURL(p.Proxy)
}

// onProxyAnswer judges a proxy's answer to CONNECT.
func onProxyAnswer(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode != http.StatusOK {
		return errProxyRefused
	}
	return nil
}

// follow follows no redirect: a redirect is the answer.
func follow(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Send makes a request as Exchange does, and keeps nothing of the answer's body.
func (c *Client) Send(ctx context.Context, request *http.Request) (status int, header http.Header, err error) {
	status, header, _, err = c.Exchange(ctx, request, 0)
	return status, header, err
}

// Exchange makes a request of any method to an http or https URL, without user
// and password in it, and returns the status and the headers of the answer,
// whatever they are, and the first bytes of its body, up to most: those that
// come before ctx ends and within a second, which is all that an answer's body
// may take. That it breaks off is no error. Exchange names itself in User-Agent
// unless the request does, and leaves the request as it is.
//
// A request with an Idempotency-Key in its headers, be it a key without a value,
// which is not sent, is repeated at once if a connection that was kept turns out
// to be closed and nothing of an answer came: the other side may see it twice.
//
// It takes as long as ctx allows, and no longer than 5 s to connect. Errors are
// those of Get, name the host as the URL does, and have a method Class that says
// in a word what sort they are: dns, connect, tls, timeout, blocked or closed.
func (c *Client) Exchange(ctx context.Context, request *http.Request, most int) (status int, header http.Header, beginning []byte, err error) {
	if !isSendable(request.URL) {
		return 0, nil, nil, errSendURL
	}
	if c.policy.Proxy != nil {
		if err := c.Foresee(request.URL); err != nil {
			return 0, nil, nil, err
		}
	}
	asking := asking{request.URL.Host, time.Now()}
	answered, err := c.sender.exchange(ctx, c.introduced(request), most)
	if err != nil {
		return 0, nil, nil, asking.inOurWords(ctx, err)
	}
	return answered.status, answered.header, answered.beginning, nil
}

// introduced is the request with what every request of ours says.
func (c *Client) introduced(request *http.Request) *http.Request {
	if _, named := request.Header["User-Agent"]; named {
		return request
	}
	said := *request
	if said.Header = request.Header.Clone(); said.Header == nil {
		said.Header = http.Header{}
	}
	said.Header.Set("User-Agent", c.UserAgent)
	return &said
}

// Foresee is the error of Send that can be told without asking anybody: that the
// Policy refuses the address that a URL gives for its host, or this machine,
// which localhost is (RFC 6761, section 6.3). Of a name it says nothing.
func (c *Client) Foresee(u *url.URL) error {
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

func isSendable(u *url.URL) bool {
	return u != nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && len(u.String()) <= maxURL
}
