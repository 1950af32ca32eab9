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

// Trace parses a traceparent header (W3C Trace Context, section 3.2). It returns the trace id
// and the flags as two hexadecimal digits, or "" for both if the header is invalid. Of a version
// after 00 it reads the members of version 00 and the flag of sampling, as section 3.2.3 says.
func Trace(traceparent string) (id, flags string) {
	const length = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(traceparent) < length || traceparent[2] != '-' || traceparent[35] != '-' || traceparent[52] != '-' {
		return "", ""
	}
	version, parent := traceparent[:2], traceparent[36:52]
	id, flags = traceparent[3:35], traceparent[53:length]
	isLong := len(traceparent) > length
	if version == "ff" || isLong && (version == "00" || traceparent[length] != '-') ||
		!isHex(version) || !isHex(id) || !isHex(parent) || !isHex(flags) || isZeros(id) || isZeros(parent) {
		return "", ""
	}
	if version != "00" {
		flags = sampledFlag(flags[1])
	}
	return id, flags
}

// sampledFlag returns flags with the flag of sampling only, the lowest bit of a hexadecimal digit.
func sampledFlag(digit byte) string {
	if strings.IndexByte("13579bdf", digit) >= 0 {
		return "01"
	}
	return "00"
}

// TraceOf returns the trace id and the flags of a request, or "" for both if it has no valid
// traceparent header, or several.
func TraceOf(header http.Header) (id, flags string) {
	values := header["Traceparent"]
	if len(values) != 1 {
		return "", ""
	}
	return Trace(values[0])
}

func isHex(s string) bool   { return strings.Trim(s, "0123456789abcdef") == "" }
func isZeros(s string) bool { return strings.Trim(s, "0") == "" }
