package openid

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/eventhook/eventhook"
)

// Config says how people sign in with OpenID Connect. Without an Issuer they cannot.
type Config struct {
	Issuer       string   `config:"issuer"`
	ClientID     string   `config:"client_id"`
	ClientSecret string   `config:"client_secret"` // "" for a public client
	DisplayName  string   `config:"name"`          // on the button of the sign-in page
	Scopes       []string `config:"scopes"`        // requested besides openid
	Claim        string   `config:"claim"`         // of the ID token: a text or a list of texts
	// Grants maps values of the claim to permissions; see grantOf for the form.
	Grants       []string `config:"grants"`
	SessionHours int      `config:"session_hours"`
}

// DefaultConfig returns the configuration without a provider.
func DefaultConfig() Config {
	return Config{DisplayName: "single sign-on", Scopes: []string{"profile", "email"}, Claim: "groups", Grants: []string{}, SessionHours: 12}
}

// Validate returns every fault by its key.
func (c Config) Validate() eventhook.Faults {
	var f eventhook.Faults
	for _, v := range []struct{ key, value string }{{"client_id", c.ClientID}, {"client_secret", c.ClientSecret}, {"name", c.DisplayName}, {"claim", c.Claim}} {
		if strings.ContainsFunc(v.value, unicode.IsControl) {
			f.Add(v.key, "has a control character")
		}
	}
	for i, name := range c.Scopes {
		if name == "" || strings.ContainsFunc(name, isNotOfScope) {
			f.Add(fmt.Sprintf("scopes[%d]", i), "is not the name of a scope, such as email")
		}
	}
	for i, text := range c.Grants {
		if _, err := grantOf(text); err != nil {
			f.Add(fmt.Sprintf("grants[%d]", i), "%s", err)
		}
	}
	const maxHours = 168
	if c.SessionHours < 1 || c.SessionHours > maxHours {
		f.Add("session_hours", "%d, want 1 to %d", c.SessionHours, maxHours)
	}
	if c.Issuer != "" {
		c.validateProvider(&f)
	} else if c.ClientID != "" || c.ClientSecret != "" || len(c.Grants) > 0 {
		f.Add("issuer", "is required with a client_id, a client_secret or grants: the URL of the OpenID provider")
	}
	return f
}

// validateProvider adds the faults of settings that a provider requires.
func (c Config) validateProvider(f *eventhook.Faults) {
	if !isIssuer(c.Issuer) {
		f.Add("issuer", "must be an https URL such as https://login.example.com; http only for localhost")
	}
	for _, v := range []struct{ key, value, use string }{
		{"client_id", c.ClientID, "the gateway's id at the provider"}, {"claim", c.Claim, "the claim of the ID token that grants permissions"},
		{"name", c.DisplayName, "the text of the sign-in button"}, {"grants", strings.Join(c.Grants, ""), "without a grant nobody can sign in"},
	} {
		if v.value == "" {
			f.Add(v.key, "is required with an issuer: %s", v.use)
		}
	}
}

// isNotOfScope reports whether a character is not allowed in the name of a scope (RFC 6749,
// section 3.3).
func isNotOfScope(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }

// isIssuer reports whether a text is the URL of an issuer. Plain http is for a provider on the same
// machine only, because the client secret passes over it.
func isIssuer(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

// grant is a value of the claim with its permissions.
type grant struct {
	value  string
	access string // admin, admin_read or tenant
	tenant string
	scopes []eventhook.Scope
}

// Kinds of access.
const (
	accessAdmin     = "admin"
	accessAdminRead = "admin_read"
	accessTenant    = "tenant"
)

// grantOf parses VALUE=admin, VALUE=admin_read or VALUE=TENANT:SCOPE+SCOPE, for example
// payments-team=acme:read+manage. VALUE may contain =.
func grantOf(text string) (grant, error) {
	i := strings.LastIndex(text, "=")
	if i <= 0 || i == len(text)-1 {
		return grant{}, fmt.Errorf("%q is not VALUE=admin, VALUE=admin_read or VALUE=TENANT:SCOPE+SCOPE", text)
	}
	g := grant{value: text[:i], access: text[i+1:]}
	if g.access == accessAdmin || g.access == accessAdminRead {
		return g, nil
	}
	tenant, list, _ := strings.Cut(g.access, ":")
	g.access, g.tenant = accessTenant, tenant
	if !eventhook.IsSlug(tenant) {
		return grant{}, fmt.Errorf("%q is not admin, admin_read or the slug of a tenant with its scopes", text[i+1:])
	}
	for name := range strings.SplitSeq(list, "+") {
		scope := eventhook.Scope(name)
		if !slices.Contains(eventhook.Scopes, scope) {
			return grant{}, fmt.Errorf("%q is not one of the scopes %v", name, eventhook.Scopes)
		}
		g.scopes = append(g.scopes, scope)
	}
	return g, nil
}
