package egress

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"
)

// lookupTimeout bounds a LookUpAndCheckHost.
const lookupTimeout = 2 * time.Second

// LookUpAndCheckHost is the error of Send for a URL of which the Policy refuses every address
// that its host has now. A name that cannot be looked up now, and one that a proxy
// looks up, is no error: it is judged when it is dialled, as every name is again.
func (c *Client) LookUpAndCheckHost(ctx context.Context, u *url.URL) error {
	if err := c.CheckHost(u); err != nil || c.policy.Proxy != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil || slices.ContainsFunc(found, func(a netip.Addr) bool { return c.policy.allows(a) }) {
		return nil
	}
	return asking{whom: u.Host}.said(classBlocked, notPublic, ErrRefused)
}
