package verify

import (
	"errors"
	"slices"
)

// Fields returns the keys of the Config fields that a type uses, except type,
// sorted. For an unknown type it returns none.
func Fields(typ string) []string { return slices.Sorted(slices.Values(schemes[typ].fields)) }

// WithDefaults returns c with the defaults of its type in empty fields, for
// descriptions.
func (c Config) WithDefaults() Config {
	switch c.Type {
	case "hmac", "hash":
		c = c.signatureDefaults()
	case "body_hmac":
		separator := c.Separator
		c = c.signatureDefaults()
		c.Separator = separator // empty means one signature
	case "url_form_hmac":
		c = c.signatureDefaults()
		c.Signed, c.Separator = "", "" // not used by this type
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

// CoversBody reports whether a request of the provider with a modified body is
// refused; see Config.CoversBody.
func (p Preset) CoversBody() bool {
	r := Resolved{Preset: p, Options: map[string]string{}}
	for _, o := range p.Options {
		r.Options[o.Name] = "x"
	}
	return r.complete(Spec{}).CoversBody()
}

// RefusalText returns "reason: detail" for an *Error, the text of any other
// error, and "" for nil.
func RefusalText(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return string(e.Reason) + ": " + e.Detail
	}
	return err.Error()
}
