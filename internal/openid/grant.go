package openid

import (
	"fmt"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/session"
)

// session returns the session of a person with the given claims. If no value of the claim grants
// anything, the error is an *Error, and the session has only the name.
func (p *Provider) session(claims map[string]any) (session.Session, error) {
	s := session.Session{Kind: session.Console, Name: nameOf(claims), ExpiresAt: p.Now().Add(time.Duration(p.SessionHours) * time.Hour)}
	values := valuesOf(claims[p.Claim])
	s.Person = &session.Person{Issuer: p.Issuer, Claim: p.Claim, Values: p.mapped(values)}
	refusal := "You are signed in as %s, but nothing grants you access to this gateway. Ask the platform team."
	if p.Claim == emailClaim && !isEmailVerified(claims) {
		s.Person.Values, refusal = nil, "You are signed in as %s, but the provider has not verified your e-mail address, which would grant you access."
	}
	if p.Grant(s) == nil {
		p.Log.Warn("a person without permissions tried to sign in", "name", s.Name, "claim", p.Claim, "values", values)
		return session.Session{Name: s.Name}, &Error{fmt.Sprintf(refusal, s.Name)}
	}
	return s, nil
}

// mapped returns the values that have a grant.
func (p *Provider) mapped(values []string) (found []string) {
	for _, g := range p.grants {
		if slices.Contains(values, g.value) && !slices.Contains(found, g.value) {
			found = append(found, g.value)
		}
	}
	return found
}

// Grant returns the permissions that the configuration of this instance grants to the person of a
// session; nil if it grants none, or if the person signed in at another provider or with another claim.
func (p *Provider) Grant(s session.Session) *eventhook.Grant {
	if s.Person == nil || s.Person.Issuer != p.Issuer || s.Person.Claim != p.Claim {
		return nil
	}
	united := eventhook.Grant{Name: s.Name, Tenants: map[string][]eventhook.Scope{}}
	isReader := false
	for _, g := range p.grants {
		switch {
		case !slices.Contains(s.Person.Values, g.value):
		case g.access == accessAdmin:
			united.Admin = true
		case g.access == accessAdminRead:
			isReader = true
		default:
			united.Tenants[g.tenant] = scopesOfBoth(united.Tenants[g.tenant], g.scopes)
		}
	}
	united.AdminReadOnly = isReader && !united.Admin
	if !united.Admin && !united.AdminReadOnly && len(united.Tenants) == 0 {
		return nil
	}
	return &united
}

// scopesOfBoth returns the scopes of both lists in the order of the documentation.
func scopesOfBoth(a, b []eventhook.Scope) (all []eventhook.Scope) {
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
	if isEmailVerified(claims) && text(emailClaim) != "" {
		return text(emailClaim)
	}
	if user := text("preferred_username"); user != "" {
		return user + " (" + text("sub") + ")"
	}
	return text("sub")
}

const emailClaim = "email"

// isEmailVerified reports whether the provider has verified that the person owns the address. Without
// that, a person may have typed the address of another one.
func isEmailVerified(claims map[string]any) bool {
	isVerified, _ := claims["email_verified"].(bool)
	return isVerified
}
