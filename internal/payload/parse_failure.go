package payload

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"strings"
)

// The reasons why a body has no view.
var (
	errMediaType      = errors.New("an unsupported content type")
	errMalformedJSON  = errors.New("malformed JSON")
	errDeepJSON       = fmt.Errorf("JSON nested deeper than %d", maxDepth)
	errMalformedForm  = errors.New("a malformed form")
	errManyFields     = fmt.Errorf("a form of more than %d fields", maxFormFields)
	errNoBoundary     = errors.New("a multipart form without a boundary in its content type")
	errTruncated      = errors.New("a multipart form without its last boundary")
	errMalformedParts = errors.New("a malformed multipart form")
	errManyParts      = fmt.Errorf("a multipart form of more than %d parts, or with more than %d bytes of headers in one", maxParts, maxPartHeaderBytes)
	errMalformedXML   = errors.New("malformed XML")
	errDocType        = errors.New("XML with declarations in its DOCTYPE")
	errDeepXML        = fmt.Errorf("XML nested deeper than %d", maxXMLDepth)
	errLargeXML       = fmt.Errorf("XML of more than %d MiB", maxXMLBytes>>20)
	errManyNodes      = fmt.Errorf("XML of more than %d elements and attributes", maxXMLNodes)
)

// ParseFailure returns the reason, for users, why the body has no view. The reason
// is "" if the body has a view or if the meter has stopped. where is the position in
// the body, such as "at byte 9" (counted from 1), and "" if it is unknown. Unlike
// JSON, each call parses the body.
func (v *View) ParseFailure() (reason, where string) {
	media := mediaType(v.contentType)
	if v.JSON() != nil {
		return "", ""
	}
	if v.meter.UseTime(2*parsingTime(v.contentType, len(v.Content()))) != nil {
		return "", ""
	}
	_, err := toJSON(v.contentType, v.Content())
	reason, where = v.failureText(media, err)
	return "the body could not be read: " + reason, where
}

// failureText describes an error of toJSON to users.
func (v *View) failureText(media string, err error) (reason, where string) {
	syntax, isSyntax := errors.AsType[*xml.SyntaxError](err)
	switch {
	case len(v.Content()) == 0:
		return "it is empty", ""
	case errors.Is(err, errMediaType):
		return fmt.Sprintf("the content type %.100q is not supported", media), ""
	case isSyntax:
		return errMalformedXML.Error(), fmt.Sprintf("at line %d", syntax.Line)
	case !errors.Is(err, errMalformedJSON):
		return err.Error(), ""
	case IsJSON(media) || looksLikeJSON(v.Content()):
		return err.Error(), whereJSON(v.Content())
	case media == "":
		return "it is not JSON, and has no content type", ""
	}
	return fmt.Sprintf("it is not JSON, and its content type is %q", media), ""
}

// looksLikeJSON reports whether a body begins like a JSON object or array.
func looksLikeJSON(body []byte) bool {
	text := bytes.TrimLeft(body, white)
	return len(text) > 0 && (text[0] == '{' || text[0] == '[')
}

// whereJSON returns the position of the first syntax error in JSON. It returns ""
// for UTF-16, because offsets in the converted text are not offsets in the body.
func whereJSON(body []byte) string {
	if _, ok := fromUTF16(body, firstOfJSON); ok {
		return ""
	}
	text := bytes.TrimPrefix(body, []byte(byteOrderMark))
	at, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(text, new(json.RawMessage)))
	switch {
	case !ok:
		return ""
	case strings.HasPrefix(at.Error(), "unexpected end"):
		return "at its end"
	}
	return fmt.Sprintf("at byte %d", int(at.Offset)+len(body)-len(text))
}
