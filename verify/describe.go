package verify

import (
	"errors"
	"slices"
)

// Fields are the keys of the Config fields that a type takes, besides type,
// sorted; none for an unknown type.
func Fields(typ string) []string { return slices.Sorted(slices.Values(schemes[typ].fields)) }

// WithDefaults is c with what its type does where a field is empty written
// out, for people to read.
func (c Config) WithDefaults() Config {
	switch c.Type {
	case "hmac", "hash":
		c = c.signatureDefaults()
	case "body_hmac":
		separator := c.Separator
		c = c.signatureDefaults()
		c.Separator = separator // without one, there is one signature
	case "url_form_hmac":
		c = c.signatureDefaults()
		c.Signed, c.Separator = "", "" // which it does not take
	case "timestamped_hmac":
		c = c.timestampedDefaults()
	case "public_key":
		c = c.publicKeyDefaults()
	case "standard_webhooks":
		c = c.standardDefaults()
	case "jwt":
		c = c.jwtDefaults()
	}
	if c.Algorithm == "" && slices.Contains(schemes[c.Type].fields, "algorithm") {
		c.Algorithm = "sha256"
	}
	return c
}

// CoversBody reports whether a changed body of the provider's requests is
// noticed; see Config.CoversBody.
func (p Preset) CoversBody() bool {
	r := Resolved{Preset: p, Options: map[string]string{}}
	for _, o := range p.Options {
		r.Options[o.Name] = "x"
	}
	return r.complete(Spec{}).CoversBody()
}

// RefusalText tells in one line why a request is refused, first the reason and then
// the detail, or what else is wrong; "" if err is nil.
func RefusalText(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return string(e.Reason) + ": " + e.Detail
	}
	return err.Error()
}
