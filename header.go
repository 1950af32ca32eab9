package eventhook

import (
	"fmt"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxHeaderValue is the maximum length of a configured header value, in bytes.
const MaxHeaderValue = 4096

// Prefixes of the headers that only the gateway sets: its own, and the headers of
// Standard Webhooks.
const (
	GatewayHeaderPrefix  = "X-Eventhook-"
	standardHeaderPrefix = "Webhook-"
)

var (
	// subscriptionHeaders are the headers that the gateway sets on each delivery.
	subscriptionHeaders = []string{"Content-Type", "Traceparent", "User-Agent", "X-Request-Id", standardHeaderPrefix}
	// hopByHop lists the headers that apply to one connection (RFC 9110, section
	// 7.6.1) and headers that the HTTP transport sets.
	hopByHop = []string{"Accept-Encoding", "Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}
)

// CheckHeader says why a configured request header is not allowed, "" if it is. The
// text never contains the header's value. reserved lists canonical names that the
// gateway sets, or prefixes that end in a hyphen. Credentials are refused because
// configured headers are shown to users; hop-by-hop headers are refused because the
// transport sets them. An underscore counts as a hyphen, since many receivers treat
// both alike.
func CheckHeader(name, value string, reserved ...string) string {
	canonical := textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))
	isReserved := func(one string) bool {
		return canonical == one || strings.HasSuffix(one, "-") && strings.HasPrefix(canonical, one)
	}
	switch {
	case !IsHeaderName(name):
		return "is not a valid header name: use letters, digits and !#$%&'*+-.^_`|~"
	case canonical == "Authorization":
		return "is a credential: use auth_header"
	case canonical == "Cookie":
		return "cannot be set"
	case isReserved(GatewayHeaderPrefix) || slices.ContainsFunc(reserved, isReserved):
		return "is set by the gateway"
	case IsHopByHop(canonical):
		return "cannot be set: it belongs to the connection"
	case value == "" || !IsHeaderValue(value):
		return fmt.Sprintf("must be one line of 1 to %d bytes of text, without leading or trailing space", MaxHeaderValue)
	}
	return ""
}

// CheckSubscriptionHeader is CheckHeader for the headers of a subscription.
func CheckSubscriptionHeader(name, value string) string {
	return CheckHeader(name, value, subscriptionHeaders...)
}

// IsHopByHop reports whether a header, by its canonical name, applies to one
// connection only.
func IsHopByHop(name string) bool { return slices.Contains(hopByHop, name) }

// IsHeaderName reports whether s is a token (RFC 9110, section 5.6.2) of at most 100
// bytes.
func IsHeaderName(s string) bool {
	const maxLength = 100
	return len(s) <= maxLength && isToken(s)
}

// IsHeaderValue reports whether s is empty or a valid header value (RFC 9110,
// section 5.5) of at most MaxHeaderValue bytes.
func IsHeaderValue(s string) bool {
	isControl := func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }
	return len(s) <= MaxHeaderValue && isText(s) && strings.TrimSpace(s) == s && !strings.ContainsFunc(s, isControl)
}

// RetryAfter parses the value of a Retry-After header: seconds or an HTTP date (RFC
// 9110, section 10.2.3). It returns at most 24 hours, and 0 for an invalid value or
// a date in the past.
func RetryAfter(text string, now time.Time) time.Duration {
	const limit = 24 * time.Hour
	if seconds, err := strconv.Atoi(text); err == nil && seconds >= 0 {
		return time.Duration(min(seconds, int(limit/time.Second))) * time.Second
	}
	for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC} {
		if at, err := time.Parse(layout, text); err == nil {
			return min(max(at.Sub(now), 0), limit)
		}
	}
	return 0
}
