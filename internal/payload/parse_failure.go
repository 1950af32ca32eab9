package payload

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"strings"
)

// Why a body has no view.
var (
	errMedia      = errors.New("a content type of which nothing is looked into")
	errNoJSON     = errors.New("malformed JSON")
	errDeepJSON   = fmt.Errorf("JSON nested deeper than %d", maxDepth)
	errNoForm     = errors.New("a malformed form")
	errManyFields = fmt.Errorf("a form of more than %d fields", maxFormFields)
	errNoBoundary = errors.New("a multipart form without a boundary in its content type")
	errCutShort   = errors.New("a multipart form without its last boundary")
	errNoParts    = errors.New("a malformed multipart form")
	errManyParts  = fmt.Errorf("a multipart form of more than %d parts, or with more than %d bytes of headers in one", maxParts, maxPartHeaderBytes)
	errNoXML      = errors.New("malformed XML")
	errDocType    = errors.New("XML with a DOCTYPE that declares something")
	errDeepXML    = fmt.Errorf("XML nested deeper than %d", maxXMLDepth)
	errLargeXML   = fmt.Errorf("XML of more than %d MiB", maxXMLBytes>>20)
	errManyNodes  = fmt.Errorf("XML of more than %d elements and attributes", maxXMLNodes)
)

// Unread says, for people, why the body has no view, and "" if it has one.
// where is the place in the body, such as "at byte 9", the first being 1, and
// "" where none is known. Unlike JSON it reads the body each time.
func (v *View) ParseFailure() (why, where string) {
	media := mediaType(v.contentType)
	if v.JSON() != nil {
		return "", ""
	}
	if v.meter.UseTime(2*parsingTime(v.contentType, len(v.Content()))) != nil {
		return "", ""
	}
	_, err := toJSON(v.contentType, v.Content())
	why, where = v.whyNone(media, err)
	return "the body could not be read: " + why, where
}

// whyNone is what an error of toJSON says to people.
func (v *View) whyNone(media string, err error) (why, where string) {
	syntax, isSyntax := errors.AsType[*xml.SyntaxError](err)
	switch {
	case len(v.Content()) == 0:
		return "it is empty", ""
	case errors.Is(err, errMedia):
		return fmt.Sprintf("nothing of the content type %.100q is looked into", media), ""
	case isSyntax:
		return errNoXML.Error(), fmt.Sprintf("at line %d", syntax.Line)
	case !errors.Is(err, errNoJSON):
		return err.Error(), ""
	case IsJSON(media) || looksLikeJSON(v.Content()):
		return err.Error(), whereJSON(v.Content())
	case media == "":
		return "it is not JSON, and has no content type", ""
	}
	return fmt.Sprintf("it is not JSON, and of the content type %q", media), ""
}

// looksLikeJSON reports whether a body begins as an object or an array.
func looksLikeJSON(body []byte) bool {
	text := bytes.TrimLeft(body, white)
	return len(text) > 0 && (text[0] == '{' || text[0] == '[')
}

// whereJSON is the byte at which a text stops being JSON. In UTF-16 none is
// told: what was read is not what was sent.
func whereJSON(body []byte) string {
	if _, ok := fromUTF16(body, firstOfJSON); ok {
		return ""
	}
	text := bytes.TrimPrefix(body, []byte(mark))
	at, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(text, new(json.RawMessage)))
	switch {
	case !ok:
		return ""
	case strings.HasPrefix(at.Error(), "unexpected end"):
		return "where it ends"
	}
	return fmt.Sprintf("at byte %d", int(at.Offset)+len(body)-len(text))
}
