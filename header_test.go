package eventhook_test

import (
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

func TestCheckSubscriptionHeader(t *testing.T) {
	for _, c := range []struct{ claim, name, value, part string }{
		{"a custom header", "X-Env", "prod, \"eu\"", ""},
		{"a value that is not ASCII", "X-Env", "größe", ""},
		{"a prefix of the gateway without its hyphen", "Webhooks", "a", ""},
		{"an empty name", "", "a", "is not a valid header name"},
		{"a name with a space", "X Env", "a", "is not a valid header name"},
		{"a name with a line break", "X-Env\r\nHost", "a", "is not a valid header name"},
		{"a long name", strings.Repeat("x", 101), "a", "is not a valid header name"},
		{"Authorization", "authorization", "Bearer t", "auth_header"},
		{"a cookie", "COOKIE", "a", "cannot be set"},
		{"the webhook id", "webhook-id", "a", "by the gateway"},
		{"the signature", "Webhook-Signature", "a", "by the gateway"},
		{"the signature with an underscore, which CGI treats as a hyphen", "webhook_signature", "a", "by the gateway"},
		{"the signature of the gateway", "x-eventhook-signature", "a", "by the gateway"},
		{"the content type", "content-type", "a", "by the gateway"},
		{"the trace", "traceparent", "a", "by the gateway"},
		{"the user agent", "user-agent", "a", "by the gateway"},
		{"the request id", "x-request-id", "a", "by the gateway"},
		{"the host", "Host", "a", "connection"},
		{"the length", "content-length", "7", "connection"},
		{"the length with an underscore, which CGI treats as a hyphen", "Content_Length", "7", "connection"},
		{"the framing", "Transfer-Encoding", "chunked", "connection"},
		{"the connection", "Connection", "close", "connection"},
		{"a proxy's password", "Proxy-Authorization", "a", "connection"},
		{"an empty value", "X-Env", "", "1 to 4096 bytes"},
		{"a value with a line break", "X-Env", "a\r\nX-Other: b", "1 to 4096 bytes"},
		{"a value with space around it", "X-Env", " a", "1 to 4096 bytes"},
		{"a value that is not UTF-8", "X-Env", "\xff", "1 to 4096 bytes"},
		{"a long value", "X-Env", strings.Repeat("x", 4097), "1 to 4096 bytes"},
	} {
		if got := eventhook.CheckSubscriptionHeader(c.name, c.value); (got == "") != (c.part == "") || !strings.Contains(got, c.part) {
			t.Errorf("%s: got %q, want a text with %q", c.claim, got, c.part)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		claim, text string
		want        time.Duration
	}{
		{"seconds", "120", 2 * time.Minute},
		{"none", "", 0},
		{"nothing", "0", 0},
		{"a date", "Sun, 22 Nov 2026 12:00:30 GMT", 30 * time.Second},
		{"a date in the format of RFC 850", "Sunday, 22-Nov-26 12:00:30 GMT", 30 * time.Second},
		{"a date in the format of asctime", "Sun Nov 22 12:00:30 2026", 30 * time.Second},
		{"a date in the past", "Sun, 22 Nov 2026 11:00:00 GMT", 0},
		{"a negative number", "-5", 0},
		{"a word", "soon", 0},
		{"a fraction", "1.5", 0},
		{"a year", "31536000", 24 * time.Hour},
		{"a number that overflows", "99999999999999999999", 0},
		{"a date far away", "Fri, 22 Nov 2030 12:00:00 GMT", 24 * time.Hour},
	} {
		if got := eventhook.RetryAfter(c.text, now); got != c.want {
			t.Errorf("%s: got %s, want %s", c.claim, got, c.want)
		}
	}
}
