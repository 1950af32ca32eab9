package eventhook

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Validate returns every fault by its member. No fault contains a value. Validate does not
// check whether the token endpoint may be reached.
func (a Auth) Validate() (f Faults) {
	if !slices.Contains(authTypes, a.Type) {
		f.Add("type", "%q is not one of %s", SanitizeLabel(a.Type), strings.Join(authTypes, ", "))
		return f
	}
	for _, m := range a.Members() {
		if wrong := m.check(a.Type); wrong != "" {
			f.Add(m.Name, "%s", wrong)
		}
	}
	if len(a.Scopes) > 0 && a.Type != AuthOAuth2 {
		f.Add("scopes", "is not a setting of the type %s", a.Type)
	}
	if len(f) > 0 {
		return f
	}
	switch a.Type {
	case AuthBasic:
		a.checkBasic(&f)
	case AuthOAuth2:
		a.checkOAuth2(&f)
	case AuthMTLS:
		a.checkCertificates(&f)
	case AuthAWS:
		a.checkAWS(&f)
	}
	return f
}

// check says what is wrong with a member of an Auth, "" if nothing.
func (m AuthMember) check(authType string) string {
	switch text := *m.Text; {
	case m.authType != authType && text != "":
		return "is not a setting of the type " + authType
	case m.authType != authType:
		return ""
	case text == "" && !m.isOptional:
		return "is required for the type " + authType
	case text == Redacted:
		return "must be given again: " + Redacted + " stands for a stored value, and none is stored for this destination"
	case len(text) > m.maxLength || !isText(text):
		return fmt.Sprintf("must be at most %d bytes of text", m.maxLength)
	}
	return ""
}

// checkBasic follows RFC 7617, section 2.
func (a Auth) checkBasic(f *Faults) {
	if strings.Contains(a.Username, ":") {
		f.Add("username", "must not contain a colon, which ends the user in Basic credentials")
	}
	isControl := func(c rune) bool { return c < ' ' || c == 0x7f }
	for _, m := range a.Members() {
		if m.authType == AuthBasic && strings.ContainsFunc(*m.Text, isControl) {
			f.Add(m.Name, "must not contain control characters")
		}
	}
}

// checkOAuth2 follows RFC 6749, section 3.3 and appendix A.
func (a Auth) checkOAuth2(f *Faults) {
	const maxScopes, maxScope = 50, 256
	if wrong, _ := CheckSubscriptionURL(a.TokenURL); wrong != "" {
		f.Add("token_url", "%s", strings.ReplaceAll(wrong, "auth or auth_header", "client_id and client_secret"))
	}
	isUnprintable := func(c rune) bool { return c < ' ' || c > '~' }
	for _, m := range a.Members() {
		if m.authType == AuthOAuth2 && m.Name != "token_url" && strings.ContainsFunc(*m.Text, isUnprintable) {
			f.Add(m.Name, "must be printable ASCII text")
		}
	}
	if len(a.Scopes) > maxScopes {
		f.Add("scopes", "%d, at most %d are allowed", len(a.Scopes), maxScopes)
	}
	for i, scope := range a.Scopes {
		if scope == "" || len(scope) > maxScope || strings.ContainsFunc(scope, isUnprintable) || strings.ContainsAny(scope, ` "\`) {
			f.Add(fmt.Sprintf("scopes[%d]", i), `must be 1 to %d printable ASCII characters without space, " and \`, maxScope)
		}
	}
}

func (a Auth) checkAWS(f *Faults) {
	for _, m := range a.Members() {
		isForeign := isNoNameCharacter
		if m.IsSecret {
			isForeign = func(c rune) bool { return c <= ' ' || c > '~' }
		}
		if m.authType == AuthAWS && strings.ContainsFunc(*m.Text, isForeign) {
			f.Add(m.Name, "has a character that is not allowed")
		}
	}
}

// CheckDestination returns the faults of an Auth together with a receiver.
func (a Auth) CheckDestination(to string, isForAgents bool) (f Faults) {
	u, err := url.Parse(to)
	switch {
	case a.Type != AuthMTLS || err != nil:
	case isForAgents:
		f.Add("type", "must not be %s with target_labels: agents send from their own network and do not get the key", AuthMTLS)
	case u.Scheme == "http":
		f.Add("type", "must not be %s with an http:// URL, to which no certificate is sent: use https", AuthMTLS)
	}
	return f
}
