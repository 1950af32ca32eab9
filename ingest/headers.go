package ingest

import (
	"net/http"
	"net/textproto"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
)

// redactedHeaders returns the canonical names of headers with credentials: the usual headers
// and the headers of the source's verifier.
func redactedHeaders(more []string) []string {
	names := slices.Clip(alwaysRedacted) // append copies it
	for _, name := range more {
		names = append(names, textproto.CanonicalMIMEHeaderKey(name))
	}
	return names
}

var alwaysRedacted = []string{"Authorization", "Cookie", "Proxy-Authorization"}

const redactedValue = "[redacted]"

// appendHeaders appends the headers of a request as an HTTP/1.1 header block with redacted
// credentials. Other values are unchanged bytes; net/http has refused line ends and NUL in
// them.
func appendHeaders(b []byte, host string, header http.Header, redact []string) []byte {
	b = appendLine(b, "Host", host)
	for name, values := range header {
		isSecret := slices.Contains(redact, name)
		for _, v := range values {
			if isSecret {
				v = redactedValue
			}
			b = appendLine(b, name, v)
		}
	}
	return b
}

func appendLine(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	b = append(b, value...)
	return append(b, "\r\n"...)
}

// TraceOf returns the trace id, the span id of the parent and the flags of a request, or "" for
// all of them if it has no valid traceparent header, or several.
func TraceOf(header http.Header) (id, parent, flags string) {
	values := header["Traceparent"]
	if len(values) != 1 {
		return "", "", ""
	}
	return eventhook.ParseTraceparent(values[0])
}

// RequestIDHeader is the canonical name of the header with the id of a request.
const RequestIDHeader = "X-Request-Id"

// RequestIDOf returns the request id that the sender chose, sanitized and at most 255 bytes
// long. If the request has none, RequestIDOf returns a new one.
func RequestIDOf(header http.Header, now time.Time) string {
	if id := eventhook.SanitizeLabel(header.Get(RequestIDHeader)); id != "" {
		return id
	}
	return eventhook.NewID[http.Request](now).String()
}
