package verify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	neturl "net/url"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// urlFormScheme is Twilio's: the HMAC of the URL, followed by the names and
// values of the form's parameters in the order of their names. A body that is
// not a form is not signed itself; the URL then carries its hash in the
// parameter bodySHA256 (twilio.com/docs/usage/security).
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
	errNoURL      = &Error{ReasonMalformed, "the signature covers the URL, which is not known"}
	errNoBodyHash = &Error{ReasonMissingField, "no bodySHA256 in the URL, and the body is not a form"}
	errBodyHash   = &Error{ReasonMismatch, "the body is not the one whose hash is in the URL"}
	errForm       = &Error{ReasonMalformed, "the body cannot be read as a form"}
)

// Verify takes the URL with and without its port, as Twilio's libraries do: they
// add the default port, and leave out any.
func (v *urlFormVerifier) Verify(ctx context.Context, r *Request) error {
	u, err := neturl.Parse(r.URL)
	if err != nil || r.URL == "" {
		return errNoURL
	}
	form, bad := signedForm(u, r)
	if bad != nil {
		return bad
	}
	var last *Error
	for _, written := range withAndWithoutPort(r.URL, u) {
		signed := *r
		signed.URL = written + form
		if last = v.signature.verify(ctx, &signed); last == nil {
			return nil
		}
		if last.Reason != ReasonMismatch {
			break
		}
	}
	return last
}

// CPUCost counts the sorted form, and the URL with and without its port.
func (v *urlFormVerifier) CPUCost(r *Request) int {
	const ways = 2
	return len(r.Body)/parsedUnit + ways*v.signature.CPUCost(r)
}

// signedForm is what follows the URL in what is signed.
func signedForm(u *neturl.URL, r *Request) (string, *Error) {
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	isForm := strings.EqualFold(trim(media), "application/x-www-form-urlencoded")
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

// bodyHash is the parameter bodySHA256, which Twilio appends: it is the last,
// and there once. Elsewhere it could be a part of a form's text that was moved
// into the URL, under the signature of the form.
func bodyHash(u *neturl.URL) (string, bool) {
	const name = "bodySHA256="
	last := u.RawQuery[strings.LastIndexByte(u.RawQuery, '&')+1:]
	sum, ok := strings.CutPrefix(last, name)
	return sum, ok && strings.Count(u.RawQuery, name) == 1
}

type formField struct{ name, value string }

// sortedForm is the names and values of a form in the order of the names, of
// equal names in that of the values, each of these once.
func sortedForm(body string) (string, *Error) {
	const most = 10_000 // as net/url has it
	count := 1 + strings.Count(body, "&")
	if count > most {
		return "", errForm
	}
	fields := make([]formField, 0, count)
	for text := range strings.SplitSeq(body, "&") {
		name, value, _ := strings.Cut(text, "=")
		name, badName := neturl.QueryUnescape(name)
		value, badValue := neturl.QueryUnescape(value)
		if badName != nil || badValue != nil || strings.Contains(text, ";") { // which net/url refuses, too
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

// withAndWithoutPort are the ways to write a URL: as it is, and without its port
// or, if it has none, with the default port.
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
