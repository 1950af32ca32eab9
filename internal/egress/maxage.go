package egress

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxAge reads Cache-Control (RFC 9111, section 5.2). Of several max-age the
// first counts; more than 68 years are 68 years.
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

// seconds is 0 for what is no number, and the largest for what is too large.
func seconds(text string) time.Duration {
	n, _ := strconv.ParseUint(strings.Trim(text, `"`), 10, 31)
	return time.Duration(n) * time.Second
}
