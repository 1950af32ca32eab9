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

// hidden lists the texts that an excerpt of an answer must not contain: the secrets of a
// subscription or target and their parts, the longest first.
type hidden []string

func newHidden(s *eventhook.Subscription, auth *eventhook.Auth, to *url.URL) hidden {
	all := []string{s.URL.Reveal(), s.AuthHeader.Reveal()}
	for _, one := range s.Signing {
		all = append(all, one.Secret.Reveal())
	}
	all = append(all, secretsOf(auth)...)
	parts := append(credentials(s.AuthHeader), to.RequestURI(), to.EscapedPath(), to.Path)
	for _, values := range to.Query() {
		parts = append(parts, values...)
	}
	return hide(all, parts)
}

// hide returns the secrets, and the parts of secrets that are long enough to be
// recognisable, the longest first.
func hide(all, parts []string) hidden {
	const minPart = 4 // bytes; shorter texts occur in every answer
	for _, part := range parts {
		if len(part) >= minPart {
			all = append(all, part)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.DeleteFunc(slices.Compact(all), func(s string) bool { return s == "" })
}

// credentials returns the credentials of an Authorization header, and the decoded user and
// password of Basic credentials.
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

// secretsOf returns the secrets of an Auth that may be nil. A private key is left out, because
// it is never sent. Package auth masks tokens and signatures.
func secretsOf(auth *eventhook.Auth) (all []string) {
	if auth == nil {
		return nil
	}
	for _, m := range auth.Members() {
		if m.IsSecret && m.Text != &auth.PrivateKey {
			all = append(all, *m.Text)
		}
	}
	if auth.Type == eventhook.AuthBasic {
		all = append(all, auth.Username+":"+auth.Password)
	}
	return all
}

// longest returns the length of the longest hidden text. That many bytes of an answer are
// read beyond the excerpt, so that a hidden text at the end of the excerpt is recognised.
func (h hidden) longest() int {
	if len(h) == 0 {
		return 0
	}
	return len(h[0])
}

// excerpt returns the beginning of an answer for users: one line of at most
// eventhook.MaxExcerpt bytes, with all hidden texts redacted.
func (h hidden) excerpt(beginning []byte) string {
	if len(beginning) == 0 {
		return ""
	}
	text := string(beginning)
	for _, secret := range h {
		text = strings.ReplaceAll(text, secret, eventhook.Redacted)
	}
	if len(beginning) == eventhook.MaxExcerpt+h.longest() { // the answer is longer, and a hidden text may be cut off at the end
		text = text[:max(len(text)-h.longest(), 0)]
	}
	text = strings.Map(visible, strings.ToValidUTF8(text, "\uFFFD"))
	return strings.TrimSpace(strings.Clone(eventhook.Truncate(text, eventhook.MaxExcerpt)))
}

// visible maps line breaks and tabs to spaces, and drops other invisible characters.
func visible(c rune) rune {
	switch {
	case c == '\n' || c == '\t':
		return ' '
	case unicode.IsControl(c) || unicode.Is(unicode.Cf, c):
		return -1
	}
	return c
}
