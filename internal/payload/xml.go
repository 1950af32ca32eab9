package payload

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
)

// Limits of XML.
const (
	maxXMLDepth = maxDepth / 2 // an element becomes up to two levels of JSON
	maxXMLNodes = 100_000      // elements and attributes
	maxXMLBytes = 8 << 20
)

// element is an element, or an attribute, which has only text.
type element struct {
	text   []byte
	fields []field[*element] // attributes first, then elements
}

// xmlJSON returns an XML document as an object with its root element. An element
// with attributes or child elements is an object: attributes have the prefix @,
// child elements have their names, and text is #text without surrounding white
// space. Any other element is its text. Namespace prefixes and declarations,
// comments and processing instructions are omitted.
func xmlJSON(body []byte, charset string) ([]byte, error) {
	if len(body) > maxXMLBytes {
		return nil, errLargeXML
	}
	text, err := xmlText(body, charset)
	if err != nil {
		return nil, err
	}
	document, err := readXML(text)
	if err != nil {
		return nil, err
	}
	return appendElement(make([]byte, 0, len(text)), document), nil
}

var declaredCharset = regexp.MustCompile(`^<\?xml[^>]*\sencoding\s*=\s*["']([A-Za-z0-9._-]+)["']`)

// xmlText returns a document in UTF-8. Its charset is, in the order of RFC 7303,
// section 3, that of the byte order mark, of the content type, or of the XML
// declaration.
func xmlText(body []byte, charset string) ([]byte, error) {
	if text, ok := fromUTF16(body, "<"); ok {
		return bytes.TrimPrefix(text, []byte(byteOrderMark)), nil
	}
	if text, ok := bytes.CutPrefix(body, []byte(byteOrderMark)); ok {
		return text, nil
	}
	if declared := declaredCharset.FindSubmatch(body[:min(len(body), 256)]); charset == "" && declared != nil {
		charset = string(declared[1])
	}
	return decode(charset, body)
}

// xmlReader reads a document. The decoder supports only XML's predefined entities,
// and never reads external resources.
type xmlReader struct {
	decoder   *xml.Decoder
	open      []*element // the document and the open elements, outermost first
	nodesLeft int        // how many more elements and attributes are allowed
}

// readXML returns the document: an element with one field, the root.
func readXML(text []byte) (*element, error) {
	r := xmlReader{decoder: xml.NewDecoder(bytes.NewReader(text)), open: []*element{{}}, nodesLeft: maxXMLNodes}
	r.decoder.CharsetReader = func(_ string, input io.Reader) (io.Reader, error) { return input, nil } // xmlText has converted it to UTF-8
	for {
		if r.nodesLeft < attributesAhead(text[r.decoder.InputOffset():]) {
			return nil, errManyNodes
		}
		token, err := r.decoder.Token()
		if errors.Is(err, io.EOF) && r.hasRoot() {
			return r.open[0], nil
		}
		if errors.Is(err, io.EOF) {
			return nil, errMalformedXML
		}
		if err != nil {
			return nil, err
		}
		if err := r.handle(token); err != nil {
			return nil, err
		}
	}
}

func (r *xmlReader) hasRoot() bool { return len(r.open[0].fields) > 0 }

func (r *xmlReader) handle(token xml.Token) error {
	in := r.open[len(r.open)-1]
	switch t := token.(type) {
	case xml.StartElement:
		return r.start(in, t)
	case xml.EndElement:
		in.text = bytes.Trim(in.text, white)
		r.open = r.open[:len(r.open)-1]
	case xml.CharData:
		return r.text(in, t)
	case xml.Directive:
		// A DOCTYPE is ignored, but declarations in it are refused, such as
		// entities that expand exponentially.
		if bytes.IndexByte(t, '[') >= 0 {
			return errDocType
		}
		if r.hasRoot() {
			return errMalformedXML
		}
	}
	return nil
}

// white is XML's white space.
const white = " \t\r\n"

// text handles text. Outside the root element only white space is allowed.
func (r *xmlReader) text(in *element, t xml.CharData) error {
	isOutside := len(r.open) == 1
	switch {
	case !isOutside:
		in.text = append(in.text, t...)
	case len(bytes.Trim(t, white)) > 0:
		return errMalformedXML
	}
	return nil
}

func (r *xmlReader) start(in *element, t xml.StartElement) error {
	r.nodesLeft -= 1 + len(t.Attr)
	isSecondRoot := len(r.open) == 1 && r.hasRoot()
	if len(r.open) > maxXMLDepth {
		return errDeepXML
	}
	if isSecondRoot || hasRepeats(t.Attr) {
		return errMalformedXML
	}
	e := &element{}
	for _, a := range t.Attr {
		if a.Name.Space != "xmlns" && a.Name != (xml.Name{Local: "xmlns"}) {
			e.fields = append(e.fields, field[*element]{"@" + a.Name.Local, &element{text: []byte(a.Value)}})
		}
	}
	in.fields = append(in.fields, field[*element]{t.Name.Local, e})
	r.open = append(r.open, e)
	return nil
}

// hasRepeats reports whether a tag has an attribute twice, which the decoder
// accepts.
func hasRepeats(list []xml.Attr) bool {
	if len(list) < 2 {
		return false
	}
	seen := make(map[xml.Name]bool, len(list))
	for _, a := range list {
		seen[a.Name] = true
	}
	return len(seen) < len(list)
}

// attributesAhead estimates the number of attributes of the tag at the start of a
// text; 0 if the text does not start with a tag. It is checked before the decoder
// allocates all attributes of the tag.
func attributesAhead(text []byte) (n int) {
	if len(text) < 2 || text[0] != '<' || text[1] == '!' || text[1] == '?' {
		return 0
	}
	quote := byte(0)
	for _, c := range text {
		switch {
		case c == quote:
			quote = 0
		case quote != 0:
		case c == '"' || c == '\'':
			quote = c
		case c == '=':
			n++
		case c == '>':
			return n
		}
	}
	return n
}

func appendElement(b []byte, e *element) []byte {
	if len(e.fields) == 0 {
		return AppendJSONString(b, string(e.text))
	}
	fields := e.fields
	if len(e.text) > 0 {
		fields = append(fields, field[*element]{"#text", &element{text: e.text}})
	}
	return appendObject(b, fields, appendElement)
}
