package eventhook

import (
	"fmt"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxHeaderValue bounds a header that is configured, in bytes.
const MaxHeaderValue = 4096

// The prefix of the headers that only the gateway sends, and of those of
// Standard Webhooks.
const (
	GatewayHeaderPrefix  = "X-Eventhook-"
	standardHeaderPrefix = "Webhook-"
)

var (
	// oursOfSubscriptions are the headers by which a subscriber knows a delivery.
	oursOfSubscriptions = []string{"Content-Type", "Traceparent", "User-Agent", "X-Request-Id", standardHeaderPrefix}
	// hopByHop are about a connection and not for who is behind it: RFC 9110,
	// section 7.6.1, with those that a transport decides upon.
	hopByHop = []string{"Accept-Encoding", "Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}
)

// CheckHeader says what is wrong with a header that is configured for requests
// of ours, "" if nothing; never its value. Those of ours cannot be set: canonical
// names, or the beginning of names if they end in a hyphen. Neither can
// credentials, which would be shown, nor what is about the connection. An
// underscore counts as a hyphen, since many receivers take them for the same.
func CheckHeader(name, value string, ours ...string) string {
	canonical := textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))
	isOurs := func(one string) bool {
		return canonical == one || strings.HasSuffix(one, "-") && strings.HasPrefix(canonical, one)
	}
	switch {
	case !IsHeaderName(name):
		return "names no header: its name is letters, digits and !#$%&'*+-.^_`|~"
	case canonical == "Authorization":
		return "is a secret: say it in auth_header"
	case canonical == "Cookie":
		return "cannot be set"
	case isOurs(GatewayHeaderPrefix) || slices.ContainsFunc(ours, isOurs):
		return "is set by the gateway"
	case IsHopByHop(canonical):
		return "cannot be set: it is about the connection"
	case value == "" || !IsHeaderValue(value):
		return fmt.Sprintf("must be a line of 1 to %d bytes of text, with no space around it", MaxHeaderValue)
	}
	return ""
}

// CheckSubscriptionHeader is CheckHeader for the headers of a subscription.
func CheckSubscriptionHeader(name, value string) string {
	return CheckHeader(name, value, oursOfSubscriptions...)
}

// IsHopByHop reports whether a header, by its canonical name, is about a
// connection alone.
func IsHopByHop(name string) bool { return slices.Contains(hopByHop, name) }

// IsHeaderName reports whether s is a token (RFC 9110, section 5.6.2) of at most
// 100 bytes.
func IsHeaderName(s string) bool {
	const longest = 100
	return len(s) <= longest && isToken(s)
}

// IsHeaderValue reports whether s can be a header's value, or is empty: RFC
// 9110, section 5.5.
func IsHeaderValue(s string) bool {
	isControl := func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }
	return len(s) <= MaxHeaderValue && isText(s) && strings.TrimSpace(s) == s && !strings.ContainsFunc(s, isControl)
}

// RetryAfter reads the header of that name, which is seconds or a date (RFC
// 9110, section 10.2.3). It is 0 for neither and for the past, and a day at most.
func RetryAfter(text string, now time.Time) time.Duration {
	const most = 24 * time.Hour
	if seconds, err := strconv.Atoi(text); err == nil && seconds >= 0 {
		return time.Duration(min(seconds, int(most/time.Second))) * time.Second
	}
	for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC} {
		if at, err := time.Parse(layout, text); err == nil {
			return min(max(at.Sub(now), 0), most)
		}
	}
	return 0
}
