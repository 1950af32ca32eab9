package verify

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// maxSecrets limits the secrets of a verifier, and with them the cost of a request.
const maxSecrets = 16

func validateHeader(name string, f *eventhook.Faults) {
	switch {
	case name == "":
		f.Add("header", "missing")
	case !IsToken(name):
		f.Add("header", "%q is not a header name", name)
	}
}

func missingHeader(name string) *Error { return refusef(ReasonMissingHeader, "no %s", name) }

func canonical(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = http.CanonicalHeaderKey(n)
	}
	return out
}

// validateChoice checks that value is empty or one of choices.
func validateChoice(key, value string, f *eventhook.Faults, choices ...string) {
	if value != "" && !slices.Contains(choices, value) {
		f.Add(key, "%q, want one of %s", value, strings.Join(choices, ", "))
	}
}

// validateList checks that there are 1 to maxSecrets texts and that each is not empty.
func validateList(key string, texts []string, f *eventhook.Faults) {
	switch {
	case len(texts) == 0:
		f.Add(key, "missing, want at least one")
	case len(texts) > maxSecrets:
		f.Add(key, "%d entries, want at most %d", len(texts), maxSecrets)
	}
	for i, s := range texts {
		if s == "" {
			f.Add(fmt.Sprintf("%s[%d]", key, i), "empty")
		}
	}
}

// IsToken reports whether s is a token (RFC 9110, section 5.6.2), the syntax of
// header names and methods.
func IsToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !alnum && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// hasControl reports whether s contains a control character, which a header value
// cannot contain.
func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// trim removes the optional white space around an element of a header.
func trim(s string) string { return strings.Trim(s, " \t") }
