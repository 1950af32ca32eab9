package targets

import (
	"cmp"
	"net"
	"slices"

	"github.com/eventhook/eventhook"
)

// isGuard reports whether the member of a name says how secrets are protected on their way to a server.
func isGuard(name string) bool { return name == "tls" || name == "mechanism" || name == "ca" }

// saslMechanisms are the mechanisms of SASL, the weakest first. The first sends the password itself.
var saslMechanisms = []string{"plain", "scram-sha-256", "scram-sha-512"}

// isWeaker reports whether the guard protects secrets less well in updated settings than in the stored
// settings: without TLS, by a weaker mechanism, or with other authorities.
func (m member) isWeaker(stored, updated Checked) bool {
	was, is := m.in(stored), m.in(updated)
	switch m.name {
	case "tls": // nil is true
		return !is.IsNil() && !is.Elem().Bool() && (was.IsNil() || was.Elem().Bool())
	case "mechanism":
		strength := func(name string) int { return slices.Index(saslMechanisms, cmp.Or(name, saslMechanisms[0])) }
		return strength(is.String()) < strength(was.String())
	}
	return is.String() != was.String()
}

// sendsToSame reports whether secrets for the updated servers reach only stored servers, each with at least the same
// protection. Both are lists of URLs with schemes of brokers, or of hosts with ports. Default ports, paths and the order
// of the servers do not count.
func sendsToSame(stored, updated string) bool {
	has := map[string]bool{} // whether a stored server uses TLS
	for _, one := range splitList(stored) {
		address, usesTLS := serverOf(one)
		has[address] = has[address] || usesTLS
	}
	return !slices.ContainsFunc(splitList(updated), func(one string) bool {
		address, usesTLS := serverOf(one)
		usedTLS, isStored := has[address]
		return address == "" || !isStored || usedTLS && !usesTLS
	})
}

// serverOf returns the host and the port of a server of a broker, "" if the text is none.
func serverOf(text string) (address string, usesTLS bool) {
	if scheme := parsed(text).Scheme; brokerPorts[scheme] != "" {
		return eventhook.LowerASCII(addressOf(text)), slices.Contains([]string{"tls", "amqps", "rediss"}, scheme)
	}
	if host, port, err := net.SplitHostPort(text); err == nil && host != "" && port != "" {
		return eventhook.LowerASCII(text), false
	}
	return "", false
}
