package egress

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxAge returns the max-age of Cache-Control (RFC 9111, section 5.2), or 0 if it is absent
// or the response must not be cached. The first of several max-age directives counts. The
// maximum is 68 years.
func maxAge(h http.Header) time.Duration {
	age := time.Duration(-1)
	for directive := range strings.SplitSeq(strings.Join(h.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch strings.ToLower(name) {
		case "no-cache", "no-store":
			return 0
		case "max-age":
			if age < 0 {
				age = seconds(value)
			}
		}
	}
	return max(age, 0)
}

// seconds returns a number of seconds: 0 for invalid text, the maximum for larger numbers.
func seconds(text string) time.Duration {
	n, _ := strconv.ParseUint(strings.Trim(text, `"`), 10, 31)
	return time.Duration(n) * time.Second
}
