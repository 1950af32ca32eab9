package egress

import "net/netip"

// scope classifies the hosts that an address can belong to.
type scope int

const (
	forbiddenScope scope = iota // no host, or a host that must not be reached through the gateway
	privateScope                // this host, or a host of a private network
	publicScope                 // a host of the public internet
)

// ranges has the scopes of address ranges: the registries of special addresses (RFC 6890)
// and the documentation of cloud providers. The first row that contains an address counts.
// An address in no row, such as link-local and multicast IPv6, is forbidden.
var ranges = []struct {
	scope    scope
	prefixes []netip.Prefix
}{
	// Metadata services of clouds, which return credentials or control a machine.
	{forbiddenScope, prefixes("169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::/32", "fd20:ce::254/128")},
	{privateScope, prefixes("127.0.0.0/8", "::1/128")},
	{privateScope, prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")},
	{privateScope, prefixes("100.64.0.0/10")}, // shared by the customers of a carrier
	{forbiddenScope, prefixes("0.0.0.0/8")},   // "this network", which Linux treats as loopback
	// For protocols such as DS-Lite, relays of 6to4, and Teredo.
	{forbiddenScope, prefixes("192.0.0.0/24", "192.88.99.0/24", "2001::/23")},
	// For documents and benchmarks.
	{forbiddenScope, prefixes("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "198.18.0.0/15", "2001:db8::/32", "3fff::/20")},
	{forbiddenScope, prefixes("224.0.0.0/4", "240.0.0.0/4")}, // multicast, reserved, broadcast
	{publicScope, prefixes("0.0.0.0/0", "2000::/3")},
}

// The IPv6 ranges whose addresses embed an IPv4 address. A network gateway forwards packets
// for them to that IPv4 address.
var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixToFour = netip.MustParsePrefix("2002::/16")    // 6to4, RFC 3056
)

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

func scopeOf(a netip.Addr) scope {
	for _, row := range ranges {
		if contains(row.prefixes, a) {
			return row.scope
		}
	}
	return forbiddenScope
}

// contains reports whether a prefix contains an address. It returns false for an address
// with a zone.
func contains(all []netip.Prefix, a netip.Addr) bool {
	for _, p := range all {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// embeddedIPv4 returns the IPv4 address that an IPv6 address embeds, or else a itself.
func embeddedIPv4(a netip.Addr) netip.Addr {
	raw := a.As16()
	switch {
	case a.Zone() != "":
		return a
	case nat64.Contains(a):
		return netip.AddrFrom4([4]byte(raw[12:]))
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(raw[2:6]))
	}
	return a.Unmap()
}
