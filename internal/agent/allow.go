package agent

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/idna"

	"github.com/eventhook/eventhook/internal/egress"
)

// AllowList names the destinations to which an agent sends. The zero AllowList is empty.
type AllowList struct{ entries []entry }

// entry is a line of an allow list: a network, or a URL with the paths below it.
type entry struct {
	scheme  string // "": http and https
	port    string // "": any port
	network netip.Prefix
	host    string // of a URL
	path    string // of a URL
}

// ParseAllowList parses the entries of an allow list. An entry is one of
//
//	https://ci.example.com/hooks   a URL: this scheme, host and port, and the paths from /hooks on
//	http://10.0.0.0/8              a network, with its scheme; any port, or :PORT at the end
//	10.0.0.0/8                     a network, with http and https
//
// A network also allows names that resolve to its addresses.
func ParseAllowList(texts []string) (AllowList, error) {
	var l AllowList
	for _, text := range texts {
		e, err := parseEntry(strings.TrimSpace(text))
		if err != nil {
			return AllowList{}, fmt.Errorf("%w; want a URL such as https://ci.example.com/hooks, or a network such as http://10.0.0.0/8", err)
		}
		l.entries = append(l.entries, e)
	}
	return l, nil
}

func parseEntry(text string) (entry, error) {
	scheme, rest, hasScheme := strings.Cut(text, "://")
	scheme = strings.ToLower(scheme)
	if !hasScheme {
		scheme, rest = "", text
	}
	if hasScheme && scheme != "http" && scheme != "https" {
		return entry{}, fmt.Errorf("%q has neither the scheme http nor https", redactedURL(text))
	}
	if strings.Contains(rest, ",") {
		return entry{}, fmt.Errorf("%q has a comma: repeat --allow, with one destination each", redactedURL(text))
	}
	if e, isNetwork, err := parseNetwork(rest); isNetwork {
		e.scheme = scheme
		return e, err
	}
	if !hasScheme {
		return entry{}, fmt.Errorf("%q has no scheme", redactedURL(text))
	}
	return parseURL(text)
}

// parseNetwork parses ADDRESS/BITS with an optional :PORT.
func parseNetwork(text string) (e entry, isNetwork bool, err error) {
	if before, hasSlash := strings.CutSuffix(text, "/"); hasSlash {
		_, isNetwork, _ = parseNetwork(before)
		return e, isNetwork, fmt.Errorf("%q ends with a slash: the network is %s", text, before)
	}
	address, bits, hasBits := cutLast(text, "/")
	a, err := netip.ParseAddr(strings.Trim(address, "[]"))
	if err != nil || !hasBits {
		return e, false, nil //nolint:nilerr // the entry is no network
	}
	bits, port, hasPort := strings.Cut(bits, ":")
	if bits == "" || strings.Trim(bits, "0123456789") != "" {
		return e, false, nil // a URL with a path
	}
	network, err := netip.ParsePrefix(fmt.Sprint(a, "/", bits))
	switch {
	case err != nil:
		return e, true, fmt.Errorf("%q is not a network", text)
	case hasPort && !isPort(port):
		return e, true, fmt.Errorf("%q has no port after the colon", text)
	case a.Is4In6():
		return e, true, fmt.Errorf("%q has the IPv6 notation of IPv4 addresses: write the IPv4 network", text)
	case network.Masked() != network:
		return e, true, fmt.Errorf("%q has an address within a network: the network is %s", text, network.Masked())
	}
	return entry{network: network, port: port}, true, nil
}

func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

func isPort(text string) bool {
	a, err := netip.ParseAddrPort("0.0.0.0:" + text)
	return err == nil && a.Port() > 0
}

// isHost reports whether a host of hostOf is an address, or a name that can be resolved.
func isHost(host string) bool {
	isOther := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	}
	_, err := netip.ParseAddr(host)
	return err == nil || !strings.ContainsFunc(host, isOther)
}

func parseURL(text string) (entry, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "":
		return entry{}, fmt.Errorf("%q is not a URL", redactedURL(text))
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return entry{}, fmt.Errorf("%q has a user, a query or a fragment", u.Redacted())
	case !isPort(portOf(u)):
		return entry{}, fmt.Errorf("%q has no port after the colon", text)
	case !isHost(hostOf(u)):
		return entry{}, fmt.Errorf("%q: %q is not the name of a host or an address; there are no wildcards", text, u.Hostname())
	case !isPlain(u.Path):
		return entry{}, fmt.Errorf("the path of %q has a dot segment, a backslash or a percent sign", text)
	}
	return entry{scheme: u.Scheme, port: portOf(u), host: hostOf(u), path: strings.TrimSuffix(u.Path, "/") + "/"}, nil
}

// redactedURL returns a text without the password that it may contain.
func redactedURL(text string) string {
	before, after, hasUser := cutLast(text, "@")
	if !hasUser {
		return text
	}
	scheme, _, hasScheme := strings.Cut(before, "://")
	if !hasScheme {
		return "xxxxx@" + after
	}
	return scheme + "://xxxxx@" + after
}

// portOf returns the port to which a URL leads.
func portOf(u *url.URL) string {
	switch port := u.Port(); {
	case port != "":
		return port
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// hostOf returns the host of a URL as net/http dials it.
func hostOf(u *url.URL) string {
	host := strings.ToLower(u.Hostname())
	if ascii, err := idna.Lookup.ToASCII(host); err == nil && ascii != "" {
		host = ascii
	}
	return strings.TrimSuffix(host, ".")
}

// isPlain reports whether servers agree about the folder of a path: it has no dot segments, also
// none with parameters, and nothing that may be decoded again. The path is decoded.
func isPlain(path string) bool {
	isDots := func(segment string) bool {
		name, _, _ := strings.Cut(segment, ";")
		return name == "." || name == ".."
	}
	return !strings.ContainsAny(path, `\%`) && !slices.ContainsFunc(strings.Split(path, "/"), isDots)
}

// permit is how an allow list allows a URL: as the host of an entry, or for the addresses of
// networks.
type permit struct {
	host     string // "" if no entry has the URL
	networks []netip.Prefix
}

// find returns how the list allows a URL, and false if it does not. If the host is a name,
// permit.allows has to decide about its addresses.
func (l AllowList) find(u *url.URL) (p permit, ok bool) {
	host, port := hostOf(u), portOf(u)
	for _, e := range l.entries {
		switch {
		case e.scheme != "" && e.scheme != u.Scheme, e.port != "" && e.port != port:
		case e.network.IsValid():
			p.networks = append(p.networks, e.network)
		case e.host == host && e.hasPath(u.Path):
			return permit{host: host}, true
		}
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return p, p.allows(a)
	}
	return p, len(p.networks) > 0
}

func (e entry) hasPath(path string) bool {
	return e.path == "/" || isPlain(path) && strings.HasPrefix(path+"/", e.path)
}

// allows reports whether the agent may connect to an address of the permitted host. A name does not
// lead to this host or to a link-local address, such as the metadata service of a cloud: only an
// entry with such an address does, or with a network of loopback addresses.
func (p permit) allows(a netip.Addr) bool {
	a = a.Unmap()
	isUsual := !a.IsLoopback() && egress.Policy{AllowPrivate: true}.Allows(a)
	if literal, err := netip.ParseAddr(p.host); err == nil {
		return a == literal.Unmap()
	}
	if p.host != "" {
		return isUsual || p.host == "localhost" && a.IsLoopback()
	}
	return slices.ContainsFunc(p.networks, func(n netip.Prefix) bool {
		return n.Contains(a) && (isUsual || n.IsSingleIP() || n.Addr().IsLoopback())
	})
}
