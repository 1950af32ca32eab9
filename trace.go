package eventhook

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
)

// SpanID is the id of a span: 8 bytes, not all zero (W3C Trace Context, section 3.2.2.4).
type SpanID [8]byte

// NewSpanID returns a new span id. It is unique but not secret.
func NewSpanID() (id SpanID) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64()|1) //nolint:gosec // unique, not secret
	return id
}

// String returns 16 hexadecimal digits, or "" for the zero id.
func (id SpanID) String() string {
	if id == (SpanID{}) {
		return ""
	}
	return hex.EncodeToString(id[:])
}

// SpanID returns the id of the span in which the noun was created: the last 8 bytes of its id,
// so that every instance can name the span as a parent.
func (id ID[K]) SpanID() SpanID { return SpanID(id[8:]) }

// NewTraceID returns a new trace id: 16 bytes, not all zero, in hexadecimal (W3C
// Trace Context, section 3.2.2.3). It is unique but not secret.
func NewTraceID() string {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], rand.Uint64()|1) //nolint:gosec // unique, not secret
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())   //nolint:gosec // unique, not secret
	return hex.EncodeToString(id[:])
}

// sampledFlags are the flags of a sampled trace, which a trace without a traceparent gets.
const sampledFlags = "01"

// Traceparent returns the header of W3C Trace Context, section 3.2. The flags are two
// hexadecimal digits; "" means sampled.
func Traceparent(trace string, span SpanID, flags string) string {
	const length = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if flags == "" {
		flags = sampledFlags
	}
	b := append(append(make([]byte, 0, length), "00-"...), trace...)
	b = hex.AppendEncode(append(b, '-'), span[:])
	return string(append(append(b, '-'), flags...))
}

// ParseTraceparent parses a traceparent header (W3C Trace Context, section 3.2). It returns the
// trace id, the span id of the parent, and the flags as two hexadecimal digits, or "" for all of
// them if the header is invalid. Of a version after 00 it reads the members of version 00 and
// the flag of sampling, as section 3.2.3 says.
func ParseTraceparent(text string) (trace, parent, flags string) {
	const length = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(text) < length || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return "", "", ""
	}
	version := text[:2]
	trace, parent, flags = text[3:35], text[36:52], text[53:length]
	isLong := len(text) > length
	if version == "ff" || isLong && (version == "00" || text[length] != '-') ||
		!isHex(version) || !isHex(trace) || !isHex(parent) || !isHex(flags) || isZeros(trace) || isZeros(parent) {
		return "", "", ""
	}
	if version != "00" {
		flags = sampledFlag(flags[1])
	}
	return trace, parent, flags
}

// sampledFlag returns flags with the flag of sampling only, the lowest bit of a hexadecimal digit.
func sampledFlag(digit byte) string {
	if strings.IndexByte("13579bdf", digit) >= 0 {
		return sampledFlags
	}
	return "00"
}

func isHex(s string) bool   { return strings.Trim(s, "0123456789abcdef") == "" }
func isZeros(s string) bool { return strings.Trim(s, "0") == "" }

// Trace returns the W3C trace id of the event and its effects: TraceID if it is
// valid, otherwise the 32 hexadecimal digits of the event's id.
func (e *Event) Trace() string {
	const digits = 32
	if len(e.TraceID) == digits && isHex(e.TraceID) && !isZeros(e.TraceID) {
		return e.TraceID
	}
	return hex.EncodeToString(e.ID[:])
}

// Span returns the id of the span that created the event, or that led to a system event; zero if no
// span did. The spans of the event's deliveries are below it.
func (e *Event) Span() (id SpanID) {
	if e.Origin != OriginSystem {
		return e.ID.SpanID()
	}
	if e.Envelope != nil && len(e.Envelope.ParentSpan) == hex.EncodedLen(len(id)) && isHex(e.Envelope.ParentSpan) {
		_, _ = hex.Decode(id[:], []byte(e.Envelope.ParentSpan)) // the digits are valid
	}
	return id
}

// TraceFlags returns the flags of the traceparent that the event came with, as two hexadecimal
// digits: of its envelope, or of the headers with which its source received it. It returns "" for
// an event without a traceparent.
func (e *Event) TraceFlags() string {
	if e.Envelope != nil {
		if flags := e.Envelope.TraceFlags; len(flags) == len(sampledFlags) && isHex(flags) {
			return flags
		}
		return ""
	}
	_, after, isFound := bytes.Cut(e.Headers, traceparentLine)
	if !isFound {
		return ""
	}
	value, _, _ := bytes.Cut(after, lineEnd)
	if trace, _, flags := ParseTraceparent(string(value)); trace == e.Trace() {
		return flags
	}
	return ""
}

// The header follows another line, because a header block begins with Host.
var traceparentLine = []byte("\r\nTraceparent: ")
