package verify

import (
	"context"
	"crypto"
	"net/http"
	"strings"

	"github.com/eventhook/eventhook"
)

// standardScheme is Standard Webhooks 1.0 (standardwebhooks.com): signatures of
// "id.timestamp.body" in a list, separated by spaces, of "v1,<base64>" (HMAC) and
// "v1a,<base64>" (Ed25519). Header is the name of the signatures' header. Its
// prefix is also the prefix of the id and timestamp headers: webhook-signature
// (the default), webhook-id and webhook-timestamp. Secrets are whsec_ and base64,
// unless SecretEncoding is text.
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
	validateTimestamp(c, f)
	if len(c.Secrets) == 0 && len(c.PublicKeys) == 0 {
		f.Add("secrets", "missing, want at least one secret or public key")
		return
	}
	if len(c.Secrets) > 0 {
		validateSecrets(c, f)
	}
	c.Algorithm = "ed25519"
	validateKeys(c, f)
}

// standardVerifier checks the headers of the first family that a request has: the
// HMAC first, then the public keys.
type standardVerifier struct {
	families []headerFamily
	missing  *Error
}

// headerFamily is a set of headers with one prefix, such as svix-.
type headerFamily struct {
	header    string // with the signatures
	id        string // with the id
	verifiers []*signatureVerifier
}

func newStandard(c Config, keys Keys) Verifier {
	c = c.standardDefaults()
	v := &standardVerifier{missing: missingHeader(c.Header)}
	for _, name := range append([]string{c.Header}, c.AlsoHeaders...) {
		v.families = append(v.families, newFamily(c, name, keys))
	}
	return v
}

func newFamily(c Config, name string, keys Keys) headerFamily {
	family := name[:len(name)-len(signatureSuffix)]
	f := headerFamily{header: http.CanonicalHeaderKey(name), id: http.CanonicalHeaderKey(family + "-id")}
	base := Config{Header: name, Separator: " ", Encoding: "base64", TimestampHeader: family + "-timestamp",
		Signed:           "{header." + family + "-id}.{timestamp}.{body}",
		ToleranceSeconds: c.ToleranceSeconds, AllowFuture: c.AllowFuture}
	if len(c.Secrets) > 0 {
		mac := base
		mac.Prefix, mac.Secrets, mac.SecretEncoding = "v1,", c.Secrets, c.SecretEncoding
		f.verifiers = append(f.verifiers, newSignature(mac, newMACChecker(mac)))
	}
	if len(c.PublicKeys) > 0 {
		public := base
		public.Prefix, public.PublicKeys, public.Algorithm = "v1a,", c.PublicKeys, "ed25519"
		f.verifiers = append(f.verifiers, newSignature(public, newKeyChecker(public, keys)))
	}
	return f
}

var errOtherID = &Error{ReasonMalformed, "another id header differs from the signed id"}

// oneID checks that id headers of other families, if any, equal the signed id.
// Otherwise a path to such a header would find an unsigned id.
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

// CPUCost returns the cost of the first family that the request has. Verify ignores
// the others.
func (v *standardVerifier) CPUCost(r *Request) (work int) {
	for i := range v.families {
		f := &v.families[i]
		if len(r.Header[f.header]) == 0 {
			continue
		}
		for _, one := range f.verifiers {
			work += one.CPUCost(r)
		}
		return work
	}
	return 0
}

// Verify returns the error of the first verifier, unless only a later verifier
// found a signature with its prefix.
func (v *standardVerifier) Verify(ctx context.Context, r *Request) error {
	return verdict(v.match(ctx, r))
}

func (v *standardVerifier) match(ctx context.Context, r *Request) (Match, *Error) {
	for i := range v.families {
		f := &v.families[i]
		if len(r.Header[f.header]) == 0 {
			continue
		}
		var refusal *Error
		for _, one := range f.verifiers {
			match, err := one.match(ctx, r)
			if err == nil {
				err = v.oneID(r, r.Header[f.id][0])
			}
			if err == nil {
				return match, nil
			}
			if refusal == nil || refusal.Reason == ReasonPrefix {
				refusal = err
			}
		}
		return Match{}, refusal
	}
	return Match{}, v.missing
}

// sign uses the first family of headers, and the HMAC if c has secrets.
func (v *standardVerifier) sign(c Config, r *Request, key crypto.Signer) error {
	return v.families[0].verifiers[0].sign(c, r, key)
}
