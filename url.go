package eventhook

import (
	"net/url"
	"strings"
)

// SameOrigin reports whether two URLs have the same scheme, host and port. Host
// names ignore case, and a missing port equals the default port. A text that is not
// an http or https URL has no origin.
func SameOrigin(a, b string) bool {
	x, y := origin(a), origin(b)
	return x != "" && x == y
}

func origin(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	port, ok := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	if !ok {
		return ""
	}
	if u.Port() != "" {
		port = u.Port()
	}
	return u.Scheme + "://" + LowerASCII(u.Hostname()) + ":" + port
}

// LowerASCII lowers ASCII letters only: two host names that are equal only under
// Unicode case folding may be different hosts.
func LowerASCII(s string) string {
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return c
	}, s)
}
