package verify

import (
	"net/http"
	"strings"

	"github.com/eventhook/eventhook"
)

// hmacScheme: the header is the HMAC of the body, behind a prefix. A header
// that is sent several times, or lists several signatures with commas, is
// good if one of them is: so providers bridge a change of the secret.
var hmacScheme = scheme{
	fields:   []string{"header", "algorithm", "encoding", "prefix", "secrets"},
	validate: validateHMAC,
	build: func(c Config) Verifier {
		return &hmacVerifier{
			header:  http.CanonicalHeaderKey(c.Header),
			prefix:  c.Prefix,
			macs:    newMACs(c),
			missing: &Error{ReasonMissingHeader, "no " + c.Header},
		}
	},
}

func validateHMAC(c Config, f *eventhook.Faults) {
	validateMAC(c, f)
	if strings.ContainsAny(c.Prefix, ", ") || hasControl(c.Prefix) {
		f.Add("prefix", "%q, want no comma, space or control character", c.Prefix)
	}
}

type hmacVerifier struct {
	header, prefix string
	macs           *macs
	missing        *Error
}

func (v *hmacVerifier) Verify(r *Request) error {
	values := r.Header[v.header]
	if len(values) == 0 {
		return v.missing
	}
	w := v.macs.take()
	defer v.macs.pool.Put(w)
	v.read(w, values)
	return v.macs.check(w, r.Body)
}

func (v *hmacVerifier) read(w *worktop, values []string) {
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			text, ok := strings.CutPrefix(trim(item), v.prefix)
			if !ok {
				text = "" // counts as a candidate, and is none
			}
			if !w.propose(text) {
				return
			}
		}
	}
}
