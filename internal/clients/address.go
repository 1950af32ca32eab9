// Package clients finds the client address of an HTTP request, also behind trusted proxies, and
// limits how many failed requests each client may send. It does not depend on the content of
// requests.
package clients

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Ranges is a list of address ranges, such as an allowlist or the trusted proxies.
type Ranges []netip.Prefix

// ParseRanges parses CIDRs. An IPv4-mapped IPv6 range (::ffff:192.0.2.0/120) becomes an
// IPv4 range.
func ParseRanges(cidrs []string) (Ranges, error) {
	const mappedBits = 96 // bits before the IPv4 address in an IPv4-mapped IPv6 address
	var all Ranges
	for _, text := range cidrs {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a CIDR: %w", text, err)
		}
		if p.Addr().Is4In6() && p.Bits() >= mappedBits {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mappedBits)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

// Contains reports whether a is in one of the ranges.
func (r Ranges) Contains(a netip.Addr) bool {
	for _, p := range r {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// Sender returns the client address of a request, where r lists the trusted proxies. It is
// the address of the peer, or, if the peer is a trusted proxy, the last address in
// X-Forwarded-For that is not a trusted proxy. The header is read from its end and only as
// far as needed, because the sender can write anything at its beginning. An entry that is
// not an address ends the search: the proxy after it is then the client. Sender returns
// the zero Addr if the peer address cannot be parsed.
func (r Ranges) Sender(req *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	client := normalize(peer.Addr())
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
			if client = normalize(hop); !r.Contains(client) {
				return client
			}
		}
	}
	return client
}

// cutLast splits the last element off a comma-separated list.
func cutLast(list string) (last, rest string, more bool) {
	i := strings.LastIndexByte(list, ',')
	if i < 0 {
		return list, "", false
	}
	return list[i+1:], list[:i], true
}

// normalize returns the form of an address that is compared and stored: an IPv4-mapped
// address becomes IPv4, and the zone, which can be any text, is removed.
func normalize(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// Text returns an address as it is stored, or "" for the zero Addr.
func Text(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
