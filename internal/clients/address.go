// Package clients tells which client a request comes from, and bounds how
// often each may be wrong. It knows nothing of what is asked for, and keeps
// nothing of it.
package clients

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Ranges are ranges that clients' addresses can be in.
type Ranges []netip.Prefix

// ParseRanges reads CIDRs; an IPv4 range may be written as IPv6.
func ParseRanges(cidrs []string) (Ranges, error) {
	const mapped = 96 // bits before an IPv4 address in an IPv6 one
	var all Ranges
	for _, text := range cidrs {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q is no range of addresses: %w", text, err)
		}
		if p.Addr().Is4In6() && p.Bits() >= mapped {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

// Contains reports whether an address is in one of the ranges.
func (r Ranges) Contains(a netip.Addr) bool {
	for _, p := range r {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// Sender is who sent a request: the peer, or, when the peer is one of these
// trusted proxies, the last address in X-Forwarded-For that is none. It is read
// from its end, no further than needed: its beginning is the sender's to write.
// The address is not valid if the peer has none.
func (r Ranges) Sender(req *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	client := plain(peer.Addr())
	if !r.Contains(client) {
		return client
	}
	for _, line := range slices.Backward(req.Header["X-Forwarded-For"]) {
		for more := true; more; {
			var text string
			text, line, more = cutLast(line)
			hop, err := netip.ParseAddr(strings.TrimSpace(text))
			if err != nil {
				return client
			}
			if client = plain(hop); !r.Contains(client) {
				return client
			}
		}
	}
	return client
}

// cutLast cuts the last element off a list with commas.
func cutLast(list string) (last, rest string, more bool) {
	i := strings.LastIndexByte(list, ',')
	if i < 0 {
		return list, "", false
	}
	return list[i+1:], list[:i], true
}

// plain is an address as we compare and store it: IPv4 as such, and without a
// zone, which may be any text.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// Text is an address as it is stored, "" if it is unknown.
func Text(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
