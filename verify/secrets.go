package verify

import (
	"fmt"
	"maps"
)

// MapSecrets returns a copy of s in which each secret is replaced by the result
// of replace. It calls replace in a fixed order. place is the location of the
// secret, such as secrets[0], verifier.password or options.verify_token. Empty
// secrets stay empty.
func (s Spec) MapSecrets(replace func(place, secret string) string) Spec {
	one := func(place, secret string) string {
		if secret == "" {
			return ""
		}
		return replace(place, secret)
	}
	all := func(place string, secrets []string) []string {
		var replaced []string
		for i, secret := range secrets {
			replaced = append(replaced, one(fmt.Sprintf("%s[%d]", place, i), secret))
		}
		return replaced
	}
	s.Secrets = all("secrets", s.Secrets)
	s.Options = maps.Clone(s.Options)
	for _, name := range s.secretOptions() {
		s.Options[name] = one("options."+name, s.Options[name])
	}
	if s.Verifier != nil {
		c := *s.Verifier
		c.Secrets, c.Values, c.Password = all("verifier.secrets", c.Secrets), all("verifier.values", c.Values), one("verifier.password", c.Password)
		s.Verifier = &c
	}
	return s
}
