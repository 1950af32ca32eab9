package payload

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
)

// Bounds of XML: how deep its elements may nest, of which each takes up to two
// levels of JSON, and how many elements and attributes it may have.
const (
	maxXMLDepth = maxDepth / 2
	maxXMLNodes = 100_000
	maxXMLBytes = 8 << 20
)

// element is an element, or an attribute, of which there is only the text.
type element struct {
	text   []byte
	fields []field[*element] // attributes first, then elements
}

// xmlJSON is an XML document as an object with its root element. An element
// with attributes or elements in it is an object: attributes under their names
// with @ before, elements under theirs, and text between them as #text, white
// space around it dropped. Any other is its text. Prefixes of namespaces are
// dropped, and so are their declarations, comments and instructions.
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

// xmlText is a document in UTF-8. What tells its charset is, as in RFC 7303,
// section 3: the mark at its start, the content type, and what it says itself.
func xmlText(body []byte, charset string) ([]byte, error) {
	if text, ok := fromUTF16(body, "<"); ok {
		return bytes.TrimPrefix(text, []byte(mark)), nil
	}
	if text, ok := bytes.CutPrefix(body, []byte(mark)); ok {
		return text, nil
	}
	if said := declaredCharset.FindSubmatch(body[:min(len(body), 256)]); charset == "" && said != nil {
		charset = string(said[1])
	}
	return decode(charset, body)
}

// xmlReader reads a document. The decoder does not know any entities but those
// of XML itself, and never reads anything else than the document.
type xmlReader struct {
	decoder *xml.Decoder
	open    []*element // the document, and in it the elements that have not ended
	room    int        // for elements and attributes; below 0 there is none for another token
}

// readXML returns the document: an element with one field, the root.
func readXML(text []byte) (*element, error) {
	r := xmlReader{decoder: xml.NewDecoder(bytes.NewReader(text)), open: []*element{{}}, room: maxXMLNodes}
	r.decoder.CharsetReader = func(_ string, input io.Reader) (io.Reader, error) { return input, nil } // it is UTF-8 by now
	for {
		if r.room < attributesAhead(text[r.decoder.InputOffset():]) {
			return nil, errManyNodes
		}
		token, err := r.decoder.Token()
		if errors.Is(err, io.EOF) && r.hasRoot() {
			return r.open[0], nil
		}
		if errors.Is(err, io.EOF) {
			return nil, errNoXML
		}
		if err != nil {
			return nil, err
		}
		if err := r.take(token); err != nil {
			return nil, err
		}
	}
}

func (r *xmlReader) hasRoot() bool { return len(r.open[0].fields) > 0 }

func (r *xmlReader) take(token xml.Token) error {
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
		// A document type says nothing that is needed, unless it declares
		// something, such as entities that multiply.
		if bytes.IndexByte(t, '[') >= 0 {
			return errDocType
		}
		if r.hasRoot() {
			return errNoXML
		}
	}
	return nil
}

// white is XML's white space.
const white = " \t\r\n"

// text takes text, of which there is none but white space around the root.
func (r *xmlReader) text(in *element, t xml.CharData) error {
	isOutside := len(r.open) == 1
	switch {
	case !isOutside:
		in.text = append(in.text, t...)
	case len(bytes.Trim(t, white)) > 0:
		return errNoXML
	}
	return nil
}

func (r *xmlReader) start(in *element, t xml.StartElement) error {
	r.room -= 1 + len(t.Attr)
	isSecondRoot := len(r.open) == 1 && r.hasRoot()
	if len(r.open) > maxXMLDepth {
		return errDeepXML
	}
	if isSecondRoot || hasRepeats(t.Attr) {
		return errNoXML
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
// lets pass.
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

// attributesAhead is about how many attributes the tag at the start of a text
// has; 0 for what is no tag. The decoder would hold them all at once.
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
