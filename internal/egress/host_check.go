package egress

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"
)

// lookupTimeout is the timeout of LookUpAndCheckHost.
const lookupTimeout = 2 * time.Second

// LookUpAndCheckHost returns the error of Send for a URL whose host currently has only
// addresses that the Policy forbids. It returns nil for a name that cannot be resolved now,
// and for a name that the proxy resolves. The addresses are checked again when they are
// dialled.
func (c *Client) LookUpAndCheckHost(ctx context.Context, u *url.URL) error {
	if err := c.CheckHost(u); err != nil || c.policy.Proxy != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil || slices.ContainsFunc(found, func(a netip.Addr) bool { return c.policy.Allows(a) }) {
		return nil
	}
	return requestInfo{host: u.Host}.errorf(classBlocked, notPublic, ErrRefused)
}
