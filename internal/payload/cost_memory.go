package payload

import (
	"bytes"
	"unicode/utf8"
)

// Bytes that a view allocates per form field, part of a multipart form, and XML
// element or attribute, in addition to their texts.
const (
	fieldCost = 400
	partCost  = 3 << 10
	nodeCost  = 600
)

// MemoryCost returns an upper bound of the bytes that New(…).JSON() allocates for a
// body without a content encoding, including garbage. It is much faster than
// building the view.
func MemoryCost(contentType string, body []byte) int {
	const fixed = 4 << 10
	n := jsonCost(body)
	switch media := mediaType(contentType); {
	case media == formMedia:
		n += fixed + 5*len(body) + writtenSize(body) + fieldCost*min(bytes.Count(body, []byte("&"))+1, maxFormFields)
	case media == "multipart/form-data":
		const copyBuffer = 64 << 10
		parts := min(bytes.Count(body, []byte("\n--"))+1, maxParts)
		n += fixed + copyBuffer + 12*len(body) + writtenSize(body) + partCost*parts
	case isXML(media) && len(body) <= maxXMLBytes && !looksLikeJSON(body):
		nodes := min(bytes.Count(body, []byte("<"))+bytes.Count(body, []byte("=")), maxXMLNodes)
		n += fixed + 8*len(body) + 4*writtenSize(body) + nodeCost*nodes
	}
	return n
}

// jsonCost returns the cost of JSON. UTF-8 is read in place and costs nothing.
func jsonCost(body []byte) int {
	const fixed, converted, replaced = 4 << 10, 8, 9
	switch {
	case len(body) > 1 && (body[0] == 0 || body[1] == 0 || body[0] >= 0xfe): // UTF-16
		return fixed + converted*len(body)
	case !utf8.Valid(body):
		return fixed + replaced*len(body)
	}
	return 0
}

// writtenSize returns an upper bound of the size that AppendJSONString writes for a
// text, also for the decoded form of percent-encoded text.
func writtenSize(text []byte) int {
	n := len(text)
	for _, c := range text {
		switch {
		case c == '%':
			const more = 6 - 3 // %01 becomes \u0001
			n += more
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
			n++
		case c < ' ':
			const more = 6 - 1
			n += more
		case c >= utf8.RuneSelf:
			const more = 3 - 1 // invalid UTF-8 is replaced by 3 bytes
			n += more
		}
	}
	return n
}
