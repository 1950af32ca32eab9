package targets

import (
	"cmp"
	"slices"
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
