package send

import (
	"cmp"
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/eventhook/eventhook"
)

// hidden is what an answer's excerpt must not repeat: what is sealed at rest,
// the longest first.
type hidden []string

func newHidden(s *eventhook.Subscription, to *url.URL) hidden {
	all := []string{s.URL.Reveal(), s.AuthHeader.Reveal()}
	for _, one := range s.Signing {
		all = append(all, one.Secret.Reveal())
	}
	parts := append(credentials(s.AuthHeader), to.RequestURI(), to.EscapedPath(), to.Path)
	for _, values := range to.Query() {
		parts = append(parts, values...)
	}
	return hide(all, parts)
}

// hide returns texts that must not be shown, and those of their parts that are long
// enough to tell something.
func hide(all, parts []string) hidden {
	const telling = 4 // bytes: what is shorter than that is in every text
	for _, part := range parts {
		if len(part) >= telling {
			all = append(all, part)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.DeleteFunc(slices.Compact(all), func(s string) bool { return s == "" })
}

// credentials are what an Authorization holds behind its scheme, and the
// password that a Basic one encodes.
func credentials(authorization eventhook.Secret) (parts []string) {
	scheme, rest, hasScheme := strings.Cut(authorization.Reveal(), " ")
	if !hasScheme {
		return nil
	}
	parts = append(parts, strings.TrimSpace(rest))
	if decoded, err := base64.StdEncoding.DecodeString(parts[0]); err == nil && strings.EqualFold(scheme, "Basic") {
		_, password, _ := strings.Cut(string(decoded), ":")
		parts = append(parts, string(decoded), password)
	}
	return parts
}

// longest is how many bytes must be read beyond an excerpt, so that none is cut
// into a part that is not known again.
func (h hidden) longest() int {
	if len(h) == 0 {
		return 0
	}
	return len(h[0])
}

// excerpt is the beginning of an answer as people see it: a line of text, at
// most eventhook.MaxExcerpt bytes, without what is hidden.
func (h hidden) excerpt(beginning []byte) string {
	if len(beginning) == 0 {
		return ""
	}
	text := string(beginning)
	for _, secret := range h {
		text = strings.ReplaceAll(text, secret, eventhook.Redacted)
	}
	if len(beginning) == eventhook.MaxExcerpt+h.longest() { // it goes on: what is hidden may be cut at its end
		text = text[:max(len(text)-h.longest(), 0)]
	}
	text = strings.Map(visible, strings.ToValidUTF8(text, "\uFFFD"))
	return strings.TrimSpace(strings.Clone(eventhook.Truncate(text, eventhook.MaxExcerpt)))
}

// visible makes spaces of what breaks lines, and drops whatever else is not
// seen.
func visible(c rune) rune {
	switch {
	case c == '\n' || c == '\t':
		return ' '
	case unicode.IsControl(c) || unicode.Is(unicode.Cf, c):
		return -1
	}
	return c
}
