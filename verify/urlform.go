package verify

import (
	"cmp"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	neturl "net/url"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// urlFormScheme is Twilio's scheme (twilio.com/docs/usage/security): the HMAC of
// the URL followed by the names and values of the form's fields, sorted by name. A
// body that is not a form is not part of the signed text; the URL then contains
// its hash in the parameter bodySHA256.
var urlFormScheme = scheme{
	fields: []string{"header", "algorithm", "encoding", "secrets"},
	validate: func(c Config, f *eventhook.Faults) {
		validateMAC(c.signatureDefaults(), f)
	},
	build: func(c Config, _ Keys) Verifier {
		c = c.signatureDefaults()
		c.Signed = "{url}"
		v := newSignature(c, newMACChecker(c))
		v.adapt(func(o *outline) { o.message.anyURL = true })
		return &urlFormVerifier{v}
	},
}

type urlFormVerifier struct{ signature *signatureVerifier }

var (
	errNoURL      = &Error{ReasonMalformed, "the signature covers the URL, which is unknown"}
	errNoBodyHash = &Error{ReasonMissingField, "the body is not a form, and the URL has no bodySHA256"}
	errBodyHash   = &Error{ReasonMismatch, "the body does not have the hash in the URL's bodySHA256"}
	errForm       = &Error{ReasonMalformed, "the body cannot be read as a form"}
)

// Verify tries the URL with and without its port, like Twilio's libraries, which
// add the default port and remove any port.
func (v *urlFormVerifier) Verify(ctx context.Context, r *Request) error {
	return verdict(v.match(ctx, r))
}

func (v *urlFormVerifier) match(ctx context.Context, r *Request) (match Match, refusal *Error) {
	u, err := neturl.Parse(r.URL)
	if err != nil || r.URL == "" {
		return match, errNoURL
	}
	form, refusal := signedForm(u, r)
	if refusal != nil {
		return match, refusal
	}
	for _, written := range withAndWithoutPort(r.URL, u) {
		signed := *r
		signed.URL = written + form
		match, refusal = v.signature.match(ctx, &signed)
		if refusal == nil || refusal.Reason != ReasonMismatch {
			break
		}
	}
	return match, refusal
}

// CPUCost adds the cost of sorting the form and of checking two URLs, with and
// without the port.
func (v *urlFormVerifier) CPUCost(r *Request) int {
	const urls = 2
	return len(r.Body)/parsedUnit + urls*v.signature.CPUCost(r)
}

// signedForm returns the signed text after the URL.
func signedForm(u *neturl.URL, r *Request) (string, *Error) {
	isForm := isForm(r)
	if sum, ok := bodyHash(u); ok && !isForm {
		have := sha256.Sum256(r.Body)
		if subtle.ConstantTimeCompare([]byte(strings.ToLower(sum)), []byte(hex.EncodeToString(have[:]))) != 1 {
			return "", errBodyHash
		}
		return "", nil
	}
	switch {
	case len(r.Body) == 0 && r.Method == http.MethodGet:
		return "", nil
	case !isForm:
		return "", errNoBodyHash
	}
	return sortedForm(string(r.Body))
}

// bodyHash returns the parameter bodySHA256. Twilio appends it, so it must be the
// last parameter and occur once. In another place it could be text of a form that
// an attacker moved into the URL while keeping the signature of the form.
func bodyHash(u *neturl.URL) (string, bool) {
	const name = "bodySHA256="
	last := u.RawQuery[strings.LastIndexByte(u.RawQuery, '&')+1:]
	sum, ok := strings.CutPrefix(last, name)
	return sum, ok && strings.Count(u.RawQuery, name) == 1
}

type formField struct{ name, value string }

// sortedForm returns the names and values of a form, sorted by name and value,
// without repeated pairs.
func sortedForm(body string) (string, *Error) {
	const maxFields = 10_000 // the limit of net/url
	count := 1 + strings.Count(body, "&")
	if count > maxFields {
		return "", errForm
	}
	fields := make([]formField, 0, count)
	for text := range strings.SplitSeq(body, "&") {
		name, value, _ := strings.Cut(text, "=")
		name, badName := neturl.QueryUnescape(name)
		value, badValue := neturl.QueryUnescape(value)
		if badName != nil || badValue != nil || strings.Contains(text, ";") { // net/url refuses semicolons, too
			return "", errForm
		}
		if text != "" {
			fields = append(fields, formField{name, value})
		}
	}
	slices.SortFunc(fields, func(a, b formField) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.value, b.value))
	})
	var b strings.Builder
	b.Grow(len(body))
	for _, f := range slices.Compact(fields) {
		b.WriteString(f.name)
		b.WriteString(f.value)
	}
	return b.String(), nil
}

// withAndWithoutPort returns the URL as it is, and without its port or, if it has
// no port, with the default port.
func withAndWithoutPort(raw string, u *neturl.URL) []string {
	port, ok := map[string]string{"https": "443", "http": "80"}[u.Scheme]
	host := u.Scheme + "://" + u.Host
	if !ok || !strings.HasPrefix(raw, host) {
		return []string{raw}
	}
	rest := raw[len(host):]
	if u.Port() == "" {
		return []string{raw, host + ":" + port + rest}
	}
	return []string{raw, strings.TrimSuffix(host, ":"+u.Port()) + rest}
}

// sign adds the parameter bodySHA256 to the URL of a request whose body is not a form.
func (v *urlFormVerifier) sign(c Config, r *Request, key crypto.Signer) error {
	if !isForm(r) && len(r.Body) > 0 {
		sum := sha256.Sum256(r.Body)
		r.URL = addParameter(r.URL, "bodySHA256", hex.EncodeToString(sum[:]))
	}
	u, err := neturl.Parse(r.URL)
	if err != nil || r.URL == "" {
		return errNoURL
	}
	form, bad := signedForm(u, r)
	if bad != nil {
		return bad
	}
	signed := *r
	signed.URL += form
	return v.signature.sign(c, &signed, key) // adds the signature to the shared headers
}

func isForm(r *Request) bool {
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.EqualFold(trim(media), "application/x-www-form-urlencoded")
}
