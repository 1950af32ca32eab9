package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
)

// The first and the last address of each range, and the adjacent addresses.
var addresses = []struct {
	claim string
	scope scope
	in    []string
}{
	{"public IPv4", publicScope, []string{
		"1.0.0.0", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
		"169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0",
		"192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0",
		"198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0", "223.255.255.255", "168.63.129.15", "168.63.129.17"}},
	{"public IPv6", publicScope, []string{"2000::", "2001:200::", "2001:4860:4860::8888", "2001:db7:ffff::", "2001:db9::", "2606:4700::1111", "2a00:1450::1", "3ffe::1", "3fff:1000::"}},
	{"loopback", privateScope, []string{"127.0.0.0", "127.0.0.1", "127.255.255.255", "::1"}},
	{"private", privateScope, []string{
		"10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255",
		"fc00::", "fd00::1", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}},
	{"shared by a carrier", privateScope, []string{"100.64.0.0", "100.127.255.255", "100.100.100.199"}},
	{"link-local", forbiddenScope, []string{"169.254.0.0", "169.254.169.254", "169.254.255.255", "fe80::1", "febf::1"}},
	{"of clouds", forbiddenScope, []string{"100.100.100.200", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254"}},
	{"this network", forbiddenScope, []string{"0.0.0.0", "0.0.0.1", "0.255.255.255", "::"}},
	{"for protocols", forbiddenScope, []string{"192.0.0.0", "192.0.0.255", "192.88.99.1", "2001::", "2001:0:4136:e378::1", "2001:2::1", "2001:1ff:ffff::", "100::1"}},
	{"for documents", forbiddenScope, []string{"192.0.2.0", "192.0.2.255", "198.51.100.7", "203.0.113.0", "203.0.113.255", "2001:db8::", "2001:db8:ffff::1", "3fff:fff::"}},
	{"for benchmarks", forbiddenScope, []string{"198.18.0.0", "198.19.255.255"}},
	{"multicast", forbiddenScope, []string{"224.0.0.0", "239.255.255.255", "ff02::1", "ff0e::1"}},
	{"reserved", forbiddenScope, []string{"240.0.0.0", "255.255.255.254", "255.255.255.255", "4000::1", "1fff::1", "5f00::1"}},
	{"site-local", forbiddenScope, []string{"fec0::1", "feff::1"}},
	{"NAT64 of the local network", forbiddenScope, []string{"64:ff9b:1::8.8.8.8", "64:ff9b:1::a00:1"}},
	{"IPv4 in the last bytes, long obsolete", forbiddenScope, []string{"::8.8.8.8", "::7f00:1"}},
	{"with a zone", forbiddenScope, []string{"fe80::1%eth0", "2606:4700::1111%eth0", "::1%lo", "64:ff9b::808:808%eth0"}},
	{"mapped", privateScope, []string{"::ffff:127.0.0.1", "::ffff:10.1.2.3"}},
	{"NAT64", privateScope, []string{"64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1"}},
	{"6to4", privateScope, []string{"2002:7f00:1::", "2002:a00:1::1", "2002:c0a8:101:1::1"}},
}

// public reports whether a host of the public internet may have the address:
// it is not private, loopback, link-local, multicast, reserved, or meant for
// protocols, documentation or benchmarks, and has no zone. An IPv6 address that
// contains an IPv4 address (mapped, NAT64, 6to4) is public if the IPv4 address is.
func public(a netip.Addr) bool { return scopeOf(embeddedIPv4(a)) == publicScope }

func TestScopeOf(t *testing.T) {
	for _, c := range addresses {
		for _, text := range c.in {
			a := netip.MustParseAddr(text)
			if got := scopeOf(embeddedIPv4(a)); got != c.scope {
				t.Errorf("%s, %s: got %d, want %d", c.claim, text, got, c.scope)
			}
			if got, want := public(a), c.scope == publicScope; got != want {
				t.Errorf("%s: public(%s): got %t, want %t", c.claim, text, got, want)
			}
		}
	}
	for claim, a := range map[string]netip.Addr{
		"no address at all":  {},
		"mapped with a zone": netip.MustParseAddr("::ffff:8.8.8.8").WithZone("eth0"),
	} {
		if public(a) {
			t.Errorf("%s: got public", claim)
		}
	}
}

func TestEmbeddedIPv4AddressesAreChecked(t *testing.T) {
	for _, c := range addresses {
		for _, text := range c.in {
			a := netip.MustParseAddr(text)
			if !a.Is4() {
				continue
			}
			v4 := a.As4()
			nat64, sixToFour := nat64.Addr().As16(), sixToFour.Addr().As16()
			copy(nat64[12:], v4[:])
			copy(sixToFour[2:], v4[:])
			for _, notation := range []netip.Addr{netip.AddrFrom16(a.As16()), netip.AddrFrom16(nat64), netip.AddrFrom16(sixToFour)} {
				if got := scopeOf(embeddedIPv4(notation)); got != c.scope {
					t.Errorf("%s as %s: got %d, want %d", text, notation, got, c.scope)
				}
			}
		}
	}
}

func TestPolicy(t *testing.T) {
	private := Policy{AllowPrivate: true}
	some := Policy{AllowedCIDRs: prefixes("10.1.0.0/16", "fe80::/10", "203.0.113.7/32")}
	for _, c := range []struct {
		claim   string
		policy  Policy
		address string
		want    bool
	}{
		{"public", Policy{}, "8.8.8.8:443", true},
		{"public, any port", Policy{}, "[2606:4700::1111]:8443", true},
		{"private", Policy{}, "10.1.2.3:443", false},
		{"loopback", Policy{}, "[::1]:443", false},
		{"private, allowed", private, "10.1.2.3:443", true},
		{"loopback, allowed", private, "127.0.0.1:443", true},
		{"mapped, allowed", private, "[::ffff:127.0.0.1]:443", true},
		{"public, where private is allowed", private, "8.8.8.8:443", true},
		{"link-local, where private is allowed", private, "169.254.169.254:443", false},
		{"of a cloud, where private is allowed", private, "[fd00:ec2::254]:443", false},
		{"unspecified, where private is allowed", private, "0.0.0.0:443", false},
		{"in a range", some, "10.1.2.3:443", true},
		{"in a range, mapped", some, "[::ffff:10.1.2.3]:443", true},
		{"in a range, behind NAT64", some, "[64:ff9b::10.1.2.3]:443", true},
		{"in a range of forbiddenScope's", some, "203.0.113.7:443", true},
		{"beside a range", some, "10.2.0.1:443", false},
		{"in a range, with a zone", some, "[fe80::1%eth0]:443", false},
		{"public, beside ranges", some, "8.8.8.8:443", true},
		{"no address", private, "localhost:443", false},
	} {
		err := c.policy.control(t.Context(), "tcp", c.address, nil)
		if got := err == nil; got != c.want || err != nil && !errors.Is(err, ErrRefused) {
			t.Errorf("%s, %s: got %v, want allowed %t", c.claim, c.address, err, c.want)
		}
	}
}

func TestClientCopiesItsPolicy(t *testing.T) {
	allowed := prefixes("127.0.0.0/8")
	server := serve(t, answer("keys"))
	c := server.client(t, Policy{AllowedCIDRs: allowed})
	allowed[0] = netip.MustParsePrefix("10.0.0.0/8")
	if _, err := c.Get(t.Context(), server.URL, 100); err != nil {
		t.Errorf("got %v, want the document", err)
	}
}

// A name is checked by its resolved addresses, and no connection is made.
func TestResolvedAddressesAreChecked(t *testing.T) {
	server := serve(t, answer("keys"))
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "localhost", "::ffff:127.0.0.1", "::1", "0.0.0.0"} {
		_, err := server.client(t, Policy{}).Get(t.Context(), "https://"+net.JoinHostPort(host, port), 100)
		if want := fmt.Sprintf(notPublic, "the server"); !errors.Is(err, ErrRefused) || err.Error() != want {
			t.Errorf("%s: got %v, want %s", host, err, want)
		}
	}
	if got := server.connections.Load(); got != 0 {
		t.Errorf("connections: got %d, want none", got)
	}
}
