package verify

import (
	"context"
	"net/http"
	"strings"

	"github.com/eventhook/eventhook"
)

// standardScheme is Standard Webhooks 1.0 (standardwebhooks.com): signatures
// of "id.timestamp.body", a list with spaces of "v1,<base64>" (HMAC) and
// "v1a,<base64>" (Ed25519). Header names that of the signatures, and so the
// family: webhook-signature (the default) stands beside webhook-id and
// webhook-timestamp. Secrets are base64 behind whsec_, unless SecretEncoding
// says text.
var standardScheme = scheme{
	fields:   []string{"header", "also_headers", "secrets", "secret_encoding", "public_keys", "tolerance_seconds", "allow_future"},
	validate: validateStandard,
	build:    newStandard,
}

const signatureSuffix = "-signature"

func (c Config) standardDefaults() Config {
	if c.Header == "" {
		c.Header = "webhook-signature"
	}
	if c.SecretEncoding == "" {
		c.SecretEncoding = "base64"
	}
	return c
}

func validateStandard(c Config, f *eventhook.Faults) {
	c = c.standardDefaults()
	for _, name := range append([]string{c.Header}, c.AlsoHeaders...) {
		if !IsToken(name) || !strings.HasSuffix(strings.ToLower(name), signatureSuffix) {
			f.Add("header", "%q, want a header that ends in %s", name, signatureSuffix)
		}
	}
	validateStamp(c, f)
	if len(c.Secrets) == 0 && len(c.PublicKeys) == 0 {
		f.Add("secrets", "missing, want at least one, or a public key")
		return
	}
	if len(c.Secrets) > 0 {
		validateSecrets(c, f)
	}
	c.Algorithm = "ed25519"
	validateKeys(c, f)
}

// standardVerifier tries the HMAC first, and then the public keys.
type standardVerifier struct {
	families []standardFamily
	missing  *Error
}

type standardFamily struct {
	header string
	id     string
	any    []*signatureVerifier
}

func newStandard(c Config, keys Keys) Verifier {
	c = c.standardDefaults()
	v := &standardVerifier{missing: missingHeader(c.Header)}
	for _, name := range append([]string{c.Header}, c.AlsoHeaders...) {
		v.families = append(v.families, newFamily(c, name, keys))
	}
	return v
}

func newFamily(c Config, name string, keys Keys) standardFamily {
	family := name[:len(name)-len(signatureSuffix)]
	f := standardFamily{header: http.CanonicalHeaderKey(name), id: http.CanonicalHeaderKey(family + "-id")}
	base := Config{Header: name, Separator: " ", Encoding: "base64", TimestampHeader: family + "-timestamp",
		Signed:           "{header." + family + "-id}.{timestamp}.{body}",
		ToleranceSeconds: c.ToleranceSeconds, AllowFuture: c.AllowFuture}
	if len(c.Secrets) > 0 {
		mac := base
		mac.Prefix, mac.Secrets, mac.SecretEncoding = "v1,", c.Secrets, c.SecretEncoding
		f.any = append(f.any, newSignature(mac, newMACChecker(mac)))
	}
	if len(c.PublicKeys) > 0 {
		public := base
		public.Prefix, public.PublicKeys, public.Algorithm = "v1a,", c.PublicKeys, "ed25519"
		f.any = append(f.any, newSignature(public, newKeyChecker(public, keys)))
	}
	return f
}

var errOtherID = &Error{ReasonMalformed, "another id stands beside the one that is signed"}

// oneID wants the ids of other families to be the signed one, if they are
// there: who looks for the id must not find another.
func (v *standardVerifier) oneID(r *Request, signed string) *Error {
	for i := range v.families {
		for _, id := range r.Header[v.families[i].id] {
			if id != signed {
				return errOtherID
			}
		}
	}
	return nil
}

// CPUCost is that of the first family that the request has, as Verify looks at no
// other.
func (v *standardVerifier) CPUCost(r *Request) (work int) {
	for i := range v.families {
		f := &v.families[i]
		if len(r.Header[f.header]) == 0 {
			continue
		}
		for _, way := range f.any {
			work += way.CPUCost(r)
		}
		return work
	}
	return 0
}

// Verify answers with the first way's error, unless a later way got further:
// found a signature of its kind.
func (v *standardVerifier) Verify(ctx context.Context, r *Request) error {
	for i := range v.families {
		f := &v.families[i]
		if len(r.Header[f.header]) == 0 {
			continue
		}
		var why *Error
		for _, way := range f.any {
			err := way.verify(ctx, r)
			if err == nil {
				err = v.oneID(r, r.Header[f.id][0])
			}
			if err == nil {
				return nil
			}
			if why == nil || why.Reason == ReasonPrefix {
				why = err
			}
		}
		return why
	}
	return v.missing
}
