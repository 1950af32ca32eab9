package verify

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/eventhook/eventhook"
)

// A message is what is signed, as a template says: text with placeholders.
//
//	{body}            the raw bytes; at most once
//	{timestamp}       the timestamp as it was sent
//	{method} {url}    of the request; the URL is the registered one, with the query
//	{url_decoded}     the same, with the escapes of :/?@!$'()*,; undone (HubSpot, request validation v3)
//	{path_encoded}    the URL's path and query, encoded once more (Contentful)
//	{crc32}           CRC-32 (IEEE) of the body in decimal (PayPal)
//	{header.<name>}   a header that must be there once
//	{headers.<name>}  the headers that this one lists, as name:value, sorted, joined by ; (Contentful)
//	{field.<path>}    a field of the body; an absent one is empty; | stands between alternatives
//	{{                a brace
type message struct {
	before, after []part // and between them the body
	hasBody       bool
	anyURL        bool // what stands for the URL has more behind it
}

var (
	errOddHeader = &Error{ReasonMalformed, "a signed header holds what no id does"}
	errOddURL    = &Error{ReasonMalformed, "the signed URL holds what belongs to a body"}
	errOddBody   = &Error{ReasonMalformed, "the body begins with what could belong to what is signed before it"}
)

// ambiguous reports whether bytes of the body could be moved into what stands
// before it, or the other way, under the same signature: a timestamp ends in
// digits, and a URL in anything. Bodies of those who sign so are JSON.
func (m message) ambiguous(r *Request) *Error {
	if m.has(url) && !m.anyURL && strings.ContainsAny(r.URL, "{}\"<> ") {
		return errOddURL
	}
	if !m.hasBody || len(m.before) == 0 || len(r.Body) == 0 {
		return nil
	}
	first := r.Body[0]
	switch m.before[len(m.before)-1].kind {
	case timestamp:
		if '0' <= first && first <= '9' {
			return errOddBody
		}
	case url, urlDecoded:
		if !closes(first, r.Body) {
			return errOddBody
		}
	default:
	}
	return nil
}

// closes reports whether a body ends as it begins: as a JSON object or array.
func closes(first byte, body []byte) bool {
	trimmed := bytes.TrimRight(body, " \t\r\n")
	if len(trimmed) == 0 {
		return false
	}
	last := trimmed[len(trimmed)-1]
	return (first == '{' && last == '}') || (first == '[' && last == ']')
}

// isID reports whether a header may be an id or a moment, and cannot have
// taken in a part of a JSON body.
func isID(s string) bool {
	const most = 256
	return len(s) <= most && !strings.ContainsAny(s, "{}[]\"")
}

type part struct {
	kind placeholder
	text string // of a literal; name of a header; path of a field
	path fieldPath
	at   alternatives // of a field: where the fieldSet has it
	must []string     // of a headerList: what it must list, in small letters
	// What is said when the header is absent, or sent more than once.
	missing, repeated *Error
}

type placeholder int

const (
	literal placeholder = iota
	timestamp
	method
	url
	urlDecoded
	urlPath
	crc
	header
	headerList
	field
)

var placeholders = map[string]placeholder{
	"timestamp": timestamp, "method": method, "url": url, "url_decoded": urlDecoded, "path_encoded": urlPath, "crc32": crc,
}

// parseMessage reads a template; wrong says what is wrong with it.
func parseMessage(template string) (m message, wrong string) {
	add := func(p part) {
		list := &m.before
		if m.hasBody {
			list = &m.after
		}
		*list = append(*list, p)
	}
	for template != "" {
		text, rest, found := strings.Cut(template, "{")
		if text != "" {
			add(part{text: text})
		}
		if !found {
			break
		}
		if brace, ok := strings.CutPrefix(rest, "{"); ok {
			add(part{text: "{"})
			template = brace
			continue
		}
		name, more, ok := strings.Cut(rest, "}")
		if !ok {
			return m, "holds a { without its }; write {{ for a brace"
		}
		template = more
		if name == "body" {
			if m.hasBody {
				return m, "holds {body} twice"
			}
			m.hasBody = true
			continue
		}
		p, ok := parsePlaceholder(name)
		if !ok {
			return m, "holds {" + name + "}, want {body}, {timestamp}, {method}, {url}, {url_decoded}, {path_encoded}, {crc32}, {header.<name>}, {headers.<name>} or {field.<path>}"
		}
		add(p)
	}
	return m, ""
}

func parsePlaceholder(name string) (part, bool) {
	if kind, ok := placeholders[name]; ok {
		return part{kind: kind, text: name, missing: refusef(ReasonMalformed, "the signature covers the URL, which is not known")}, true
	}
	kind, rest, _ := strings.Cut(name, ".")
	switch {
	case kind == "header" && IsToken(rest):
		return headerPart(header, rest), true
	case kind == "headers" && IsToken(rest):
		p := headerPart(headerList, rest)
		p.must = []string{strings.ToLower(rest)}
		return p, true
	case kind == "field" && isFieldPath(rest):
		return part{kind: field, text: rest, path: parseFieldPath(rest)}, true
	}
	return part{}, false
}

func headerPart(kind placeholder, name string) part {
	return part{kind: kind, text: http.CanonicalHeaderKey(name),
		missing: missingHeader(name), repeated: refusef(ReasonMalformed, "%s is sent more than once", name)}
}

// has reports whether the template has a placeholder of a kind.
func (m message) has(kind placeholder) bool {
	is := func(p part) bool { return p.kind == kind }
	return slices.ContainsFunc(m.before, is) || slices.ContainsFunc(m.after, is)
}

// coversBody reports whether another body gives another message. For a CRC
// another body can be made that has it.
func (m message) coversBody() bool { return m.hasBody }

// demandListed has lists of headers hold one more.
func (m message) demandListed(name string) {
	for i := range m.before {
		if p := &m.before[i]; p.kind == headerList {
			p.must = append(p.must, strings.ToLower(name))
		}
	}
	for i := range m.after {
		if p := &m.after[i]; p.kind == headerList {
			p.must = append(p.must, strings.ToLower(name))
		}
	}
}

// locate adds the fields of the template to s.
func (m message) locate(s *fieldSet) {
	for _, parts := range [][]part{m.before, m.after} {
		for i := range parts {
			if p := &parts[i]; p.kind == field {
				p.at = s.addAll(p.path)
			}
		}
	}
}

var errSignedLarge = &Error{ReasonMalformed, fmt.Sprintf("what is signed beside the body is larger than the body and %d bytes", maxSignedAdd)}

// compose writes what stands before and after the body into w. stamp is the
// timestamp as it was sent; w.found are the fields for {field.…}. A template
// that repeats its placeholders cannot make more of a body than its own size and
// maxSignedAdd.
func (m message) compose(w *workspace, r *Request, stamp string) *Error {
	w.before, w.after, w.body, w.hasCRC = w.before[:0], w.after[:0], m.hasBody, false
	if err := m.ambiguous(r); err != nil {
		return err
	}
	room := len(r.Body) + maxSignedAdd
	for i := range m.before {
		var err *Error
		if w.before, err = m.before[i].append(w.before, w, r, stamp); err != nil {
			return err
		}
		if len(w.before) > room {
			return errSignedLarge
		}
	}
	for i := range m.after {
		var err *Error
		if w.after, err = m.after[i].append(w.after, w, r, stamp); err != nil {
			return err
		}
		if len(w.before)+len(w.after) > room {
			return errSignedLarge
		}
	}
	return nil
}

func (p *part) append(b []byte, w *workspace, r *Request, stamp string) ([]byte, *Error) {
	switch p.kind {
	case literal:
		return append(b, p.text...), nil
	case timestamp:
		return append(b, stamp...), nil
	case method:
		return append(b, r.Method...), nil
	case url, urlDecoded, urlPath:
		return p.appendURL(b, r)
	case crc:
		if !w.hasCRC {
			w.crc, w.hasCRC = crc32.ChecksumIEEE(r.Body), true
		}
		return strconv.AppendUint(b, uint64(w.crc), 10), nil
	case field:
		text, err := p.at.text(w.found)
		return append(b, text...), err
	default: // header, headerList
	}
	values := r.Header[p.text]
	switch {
	case len(values) == 0:
		return b, p.missing
	case len(values) > 1:
		return b, p.repeated
	case p.kind == header && !isID(values[0]):
		return b, errOddHeader
	case p.kind == header:
		return append(b, values[0]...), nil
	}
	return p.appendHeaderList(b, r, values[0])
}

func (p *part) appendURL(b []byte, r *Request) ([]byte, *Error) {
	if r.URL == "" {
		return b, p.missing
	}
	switch p.kind {
	case urlDecoded:
		return append(b, signedEscapes.Replace(r.URL)...), nil
	case urlPath:
		return appendEncodedPath(b, r.URL), nil
	default: // url
		return append(b, r.URL...), nil
	}
}

// signedEscapes are the ones that HubSpot undoes before it signs:
// developers.hubspot.com, "Validating requests", v3.
var signedEscapes = func() *strings.Replacer {
	var pairs []string
	for _, c := range ":/?@!$'()*,;" {
		upper := "%" + strings.ToUpper(strconv.FormatInt(int64(c), 16))
		pairs = append(pairs, upper, string(c), strings.ToLower(upper), string(c))
	}
	return strings.NewReplacer(pairs...)
}()

// appendEncodedPath encodes as Contentful's library does: the path as
// JavaScript's encodeURI, the query as its querystring.escape and then so.
func appendEncodedPath(b []byte, raw string) []byte {
	const unreserved = "-_.!~*'()"
	const reserved = ";,/?:@&=+$#"
	_, rest, _ := strings.Cut(raw, "://")
	_, path, _ := strings.Cut(rest, "/")
	path, query, _ := strings.Cut(path, "?")
	b = appendEscaped(append(b, '/'), path, unreserved+reserved, "%")
	if query == "" {
		return b
	}
	return appendEscaped(append(b, '?'), query, unreserved, "%25")
}

func appendEscaped(b []byte, text, keep, percent string) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(text) {
		c := text[i]
		if '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || strings.IndexByte(keep, c) >= 0 {
			b = append(b, c)
			continue
		}
		b = append(append(b, percent...), digits[c>>4], digits[c&15])
	}
	return b
}

// appendHeaderList appends the headers that a list names as Contentful signs
// them: lower-case name and value, sorted by name. A list that is not itself
// among them could be shortened by anybody: what it named then stands in the
// value of another header, and is signed as that.
func (p *part) appendHeaderList(b []byte, r *Request, list string) ([]byte, *Error) {
	const most = 50
	var room [8]string
	names := room[:0]
	for name := range strings.SplitSeq(strings.ToLower(list), ",") {
		names = append(names, trim(name))
	}
	if len(names) > most {
		return b, refusef(ReasonMalformed, "more than %d headers are signed", most)
	}
	slices.Sort(names)
	for _, name := range p.must {
		if !slices.Contains(names, name) {
			return b, refusef(ReasonMalformed, "%s does not list %s", p.text, name)
		}
	}
	for i, name := range names {
		values := r.Header[http.CanonicalHeaderKey(name)]
		if len(values) != 1 {
			return b, refusef(ReasonMissingHeader, "a signed header is absent, or sent more than once")
		}
		if i > 0 {
			b = append(b, ';')
		}
		b = append(b, name...)
		b = append(b, ':')
		b = append(b, values[0]...)
	}
	return b, nil
}

// validateSigned checks a template, and that it covers what it must.
func validateSigned(template string, f *eventhook.Faults) message {
	m, wrong := parseMessage(template)
	if wrong != "" {
		f.Add("signed", "%s", wrong)
	}
	return m
}
