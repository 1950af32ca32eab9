package ingest

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// redactedHeaders are the canonical names of headers that carry credentials:
// the usual ones, and those of the source's verifier.
func redactedHeaders(more []string) []string {
	names := alwaysRedacted // of which an append makes a copy
	for _, name := range more {
		names = append(names, textproto.CanonicalMIMEHeaderKey(name))
	}
	return names
}

var alwaysRedacted = []string{"Authorization", "Cookie", "Proxy-Authorization"}

const redactedValue = "[redacted]"

// appendHeaders appends a request's headers as an HTTP/1.1 header block,
// credentials redacted. Values are the bytes that came; the server has refused
// line ends and NUL in them.
func appendHeaders(b []byte, host string, header http.Header, redact []string) []byte {
	b = appendLine(b, "Host", host)
	for name, values := range header {
		secret := slices.Contains(redact, name)
		for _, v := range values {
			if secret {
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

// Trace reads a W3C traceparent (version 00): the trace id, and the flags as two
// hexadecimal digits. Both are "" if it is none.
func Trace(traceparent string) (id, flags string) {
	const length = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(traceparent) != length || traceparent[:3] != "00-" || traceparent[35] != '-' || traceparent[52] != '-' {
		return "", ""
	}
	id, flags = traceparent[3:35], traceparent[53:]
	parent := traceparent[36:52]
	if !isHex(id) || !isHex(parent) || !isHex(flags) || isZeros(id) || isZeros(parent) {
		return "", ""
	}
	return id, flags
}

func isHex(s string) bool   { return strings.Trim(s, "0123456789abcdef") == "" }
func isZeros(s string) bool { return strings.Trim(s, "0") == "" }
