package ingest

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"
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

// Trace parses a W3C Trace Context traceparent header of version 00. It returns the trace
// id and the flags as two hexadecimal digits, or "" for both if the header is invalid.
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
