package egress

import "net/netip"

// reach says who may stand behind an address.
type reach int

const (
	nobody  reach = iota // no host, or one that is not to be reached through us
	insider              // this host, or one of a private network
	anybody              // a host of the public internet
)

// ranges is what the registries of special addresses say (RFC 6890), and the
// clouds' own documents. The first row that holds an address counts; what is
// in none, such as link-local and multicast IPv6, is nobody.
var ranges = []struct {
	reach    reach
	prefixes []netip.Prefix
}{
	// Where clouds hand out credentials, or power over a machine.
	{nobody, prefixes("169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::/32", "fd20:ce::254/128")},
	{insider, prefixes("127.0.0.0/8", "::1/128")},
	{insider, prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")},
	{insider, prefixes("100.64.0.0/10")}, // shared by the customers of a carrier
	{nobody, prefixes("0.0.0.0/8")},      // "this network", which Linux takes for loopback
	// For protocols: among others DS-Lite, relays of 6to4, and Teredo.
	{nobody, prefixes("192.0.0.0/24", "192.88.99.0/24", "2001::/23")},
	// For documents and benchmarks.
	{nobody, prefixes("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "198.18.0.0/15", "2001:db8::/32", "3fff::/20")},
	{nobody, prefixes("224.0.0.0/4", "240.0.0.0/4")}, // multicast, reserved, broadcast
	{anybody, prefixes("0.0.0.0/0", "2000::/3")},
}

// The ranges whose addresses carry an IPv4 address, to which a gateway sends
// what is sent to them.
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

func reachOf(a netip.Addr) reach {
	for _, row := range ranges {
		if within(row.prefixes, a) {
			return row.reach
		}
	}
	return nobody
}

// within is false for an address with a zone.
func within(all []netip.Prefix, a netip.Addr) bool {
	for _, p := range all {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// meant is the IPv4 address that an IPv6 address stands for, or else a itself.
func meant(a netip.Addr) netip.Addr {
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
