package eventhook

import (
	"net/url"
	"strings"
)

// SameOrigin reports whether two URLs have the same scheme, host and port: the
// case of host names does not count, and a default port equals none. A text that
// is no http or https URL has no origin.
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
	return u.Scheme + "://" + lowerASCII(u.Hostname()) + ":" + port
}

// lowerASCII leaves other letters alone: two names that are equal in Unicode
// only may be two hosts.
func lowerASCII(s string) string {
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return c
	}, s)
}
