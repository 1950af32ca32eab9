package payload

import (
	"bytes"
	"unicode/utf8"
)

// Bytes that a view allocates for each field of a form, part of a multipart
// form, and element or attribute of XML, besides their texts.
const (
	fieldCost = 400
	partCost  = 3 << 10
	nodeCost  = 600
)

// MemoryCost bounds the memory that New(…).JSON() allocates for a body without a
// content encoding, garbage included, in bytes. It takes a small part of the
// time of the view itself.
func MemoryCost(contentType string, body []byte) int {
	const fixed = 4 << 10
	n := jsonCost(body)
	switch media := mediaType(contentType); {
	case media == formMedia:
		n += fixed + 5*len(body) + written(body) + fieldCost*min(bytes.Count(body, []byte("&"))+1, maxFormFields)
	case media == "multipart/form-data":
		const copying = 64 << 10
		parts := min(bytes.Count(body, []byte("\n--"))+1, maxParts)
		n += fixed + copying + 12*len(body) + written(body) + partCost*parts
	case isXML(media) && len(body) <= maxXMLBytes && !looksLikeJSON(body):
		nodes := min(bytes.Count(body, []byte("<"))+bytes.Count(body, []byte("=")), maxXMLNodes)
		n += fixed + 8*len(body) + 4*written(body) + nodeCost*nodes
	}
	return n
}

// jsonCost is the cost of JSON, which is read in place if it is UTF-8.
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

// written bounds the size of a text in JSON, as AppendJSONString writes it, also
// when the text is percent-encoded.
func written(text []byte) int {
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
			const more = 3 - 1 // one that is no UTF-8 is replaced
			n += more
		}
	}
	return n
}
