package openid

import (
	"fmt"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/session"
)

// session returns the session of a person with the given claims. The error is an *Error if no
// value of the claim grants anything.
func (p *Provider) session(claims map[string]any) (session.Session, error) {
	name := nameOf(claims)
	g := p.grant(valuesOf(claims[p.Claim]))
	if g == nil {
		p.log.Warn("a person without permissions tried to sign in", "name", name, "claim", p.Claim, "values", valuesOf(claims[p.Claim]))
		return session.Session{}, &Error{fmt.Sprintf("You are signed in as %s, but nothing grants you access to this gateway. Ask the platform team.", name)}
	}
	g.Name = name
	return session.Session{Kind: session.Console, Name: name, Grant: g, ExpiresAt: p.now().Add(time.Duration(p.SessionHours) * time.Hour)}, nil
}

// grant unites the permissions of all values; nil if there are none.
func (p *Provider) grant(values []string) *eventhook.Grant {
	g := eventhook.Grant{Tenants: map[string][]eventhook.Scope{}}
	isReader := false
	for _, text := range p.Grants {
		one, err := grantOf(text)
		if err != nil || !slices.Contains(values, one.value) {
			continue // Validate has refused a malformed grant
		}
		switch one.access {
		case accessAdmin:
			g.Admin = true
		case accessAdminRead:
			isReader = true
		default:
			g.Tenants[one.tenant] = united(g.Tenants[one.tenant], one.scopes)
		}
	}
	g.AdminReadOnly = isReader && !g.Admin
	if !g.Admin && !g.AdminReadOnly && len(g.Tenants) == 0 {
		return nil
	}
	return &g
}

// united returns the scopes of both lists in the order of the documentation.
func united(a, b []eventhook.Scope) (all []eventhook.Scope) {
	for _, scope := range eventhook.Scopes {
		if slices.Contains(a, scope) || slices.Contains(b, scope) {
			all = append(all, scope)
		}
	}
	return all
}

// valuesOf returns a claim that is a text or a list of texts.
func valuesOf(claim any) (values []string) {
	switch v := claim.(type) {
	case string:
		return []string{v}
	case []any:
		for _, item := range v {
			if text, ok := item.(string); ok {
				values = append(values, text)
			}
		}
	}
	return values
}

// nameOf returns the person's name for the audit log. An address counts only if the provider has
// verified it; sub is unique at the provider.
func nameOf(claims map[string]any) string {
	text := func(name string) string { s, _ := claims[name].(string); return s }
	if isVerified, _ := claims["email_verified"].(bool); isVerified && text("email") != "" {
		return text("email")
	}
	if user := text("preferred_username"); user != "" {
		return user + " (" + text("sub") + ")"
	}
	return text("sub")
}
