package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"

	"github.com/eventhook/eventhook/internal/egress"
)

// destinations sends requests to the destinations of an allow list. A URL is checked before
// anything is sent, and an address when it is dialled, so a name that resolves to another address
// later is checked again. No redirect is followed, and no proxy is used. Safe for concurrent use.
type destinations struct {
	allowed  AllowList
	resolver *net.Resolver // nil: the resolver of the system
	clients  atomic.Pointer[clients]
}

// clients have separate connections for the hosts that entries name and for the hosts in networks, so
// that a connection is used only for requests with the rule under which it was made.
type clients struct{ named, networks *egress.Client }

// material is the certificate and the authorities of the agent in TLS.
type material struct {
	certificate *tls.Certificate // of the agent, or nil
	authorities *x509.CertPool   // nil: the authorities of the system
}

// use makes new connections use m. Idle connections are closed.
func (d *destinations) use(m material) {
	previous := d.clients.Swap(&clients{named: d.newClient(m), networks: d.newClient(m)})
	if previous != nil {
		previous.close()
	}
}

func (d *destinations) newClient(m material) *egress.Client {
	c := egress.New(egress.Policy{Allow: allowsPermitted, Resolver: d.resolver, RootCAs: m.authorities})
	if m.certificate != nil {
		c = c.WithCertificate(*m.certificate, nil)
	}
	return c
}

func (c *clients) close() {
	c.named.CloseIdleConnections()
	c.networks.CloseIdleConnections()
}

type permitKey struct{}

// allowsPermitted is the Allow of an egress.Policy. Without a permit nothing is allowed.
func allowsPermitted(ctx context.Context, a netip.Addr) bool {
	p, _ := ctx.Value(permitKey{}).(permit)
	return p.allows(a)
}

// Exchange makes a request; see egress.Client.Exchange. The error for a destination that the list
// does not allow wraps egress.ErrRefused.
func (d *destinations) Exchange(ctx context.Context, request *http.Request, maxBytes int) (status int, header http.Header, beginning []byte, err error) {
	p, ok := d.allowed.find(request.URL)
	if !ok {
		return 0, nil, nil, &blockedError{"the agent does not send to %s: no --allow of the agent names it", request.URL}
	}
	c := d.clients.Load()
	client := c.networks
	if p.host != "" {
		client = c.named
	}
	status, header, beginning, err = client.Exchange(context.WithValue(ctx, permitKey{}, p), request, maxBytes)
	if errors.Is(err, egress.ErrRefused) {
		err = &blockedError{"the agent does not send to the address of %s: no --allow of the agent names it", request.URL}
	}
	return status, header, beginning, err
}

// blockedError is the error for a destination that is not allowed. Its text has the host only.
type blockedError struct {
	format string
	to     *url.URL
}

func (e *blockedError) Error() string { return fmt.Sprintf(e.format, e.to.Host) }
func (e *blockedError) Unwrap() error { return egress.ErrRefused }
func (e *blockedError) Class() string { return "blocked" }
